// The backend and the clients in Go of the end-to-end test `rpc`: a service that speaks gRPC (with google.golang.org/grpc), gRPC-Web and
// Connect (with connectrpc.com/connect), and calls of it with the same libraries. All messages are google.protobuf.StringValue.
//
// usage: rpc backend | rpc client CALLS
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	service  = "/shop.v1.Orders/"
	keyName  = "idempotency-key"
	replayed = "idempotent-replayed"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "backend":
		log.Fatal(serve())
	case len(os.Args) == 3 && os.Args[1] == "client":
		if err := callAll(os.Args[2]); err != nil {
			log.Fatal(err)
		}
	default:
		log.Fatal("usage: rpc backend | rpc client CALLS")
	}
}

// The backend keeps the first answer under each key, errors too, and gives it again.
type orders struct {
	mutex  sync.Mutex
	number int
	stored map[string]order
}

type order struct {
	value  string
	failed bool
}

func (o *orders) create(key, item string) (order, bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if known, ok := o.stored[key]; ok {
		return known, true
	}
	o.number++
	made := order{value: fmt.Sprintf("%d: %s for %s", o.number, item, key), failed: item == "nothing"}
	if made.failed {
		// An error may name files. Nothing of it changes on its way.
		made.value = "out of stock: /srv/shop/stock.db"
	}
	o.stored[key] = made
	return made, false
}

func serve() error {
	shop := &orders{stored: map[string]order{}}
	grpcServer := grpc.NewServer()
	grpcServer.RegisterService(shop.describe(), shop)
	others := shop.handlers()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := r.Header.Get("Content-Type")
		if strings.HasPrefix(kind, "application/grpc") && !strings.HasPrefix(kind, "application/grpc-web") {
			grpcServer.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server.Serve(listener)
}

// What protoc would make of the service.
func (o *orders) describe() *grpc.ServiceDesc {
	unary := func(answer func(context.Context, string) (string, error)) func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			request := new(wrapperspb.StringValue)
			if err := decode(request); err != nil {
				return nil, err
			}
			value, err := answer(ctx, request.Value)
			return wrapperspb.String(value), err
		}
	}
	create := unary(func(ctx context.Context, item string) (string, error) {
		in, _ := metadata.FromIncomingContext(ctx)
		made, again := o.create(strings.Join(in.Get(keyName), ","), item)
		if again {
			_ = grpc.SetHeader(ctx, metadata.Pairs(replayed, "true"))
		}
		if made.failed {
			return "", status.Error(codes.FailedPrecondition, made.value)
		}
		return made.value, nil
	})
	get := unary(func(_ context.Context, item string) (string, error) { return "got " + item, nil })
	watch := func(_ any, stream grpc.ServerStream) error {
		for {
			message := new(wrapperspb.StringValue)
			if err := stream.RecvMsg(message); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.SendMsg(wrapperspb.String("saw " + message.Value)); err != nil {
				return err
			}
		}
	}
	return &grpc.ServiceDesc{
		ServiceName: "shop.v1.Orders",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Create", Handler: create}, {MethodName: "Get", Handler: get}},
		Streams:     []grpc.StreamDesc{{StreamName: "Watch", Handler: watch, ServerStreams: true, ClientStreams: true}},
	}
}

func (o *orders) handlers() http.Handler {
	type request = connect.Request[wrapperspb.StringValue]
	type response = connect.Response[wrapperspb.StringValue]
	create := func(_ context.Context, r *request) (*response, error) {
		made, again := o.create(strings.Join(r.Header().Values(keyName), ","), r.Msg.Value)
		if made.failed {
			err := connect.NewError(connect.CodeFailedPrecondition, errors.New(made.value))
			if again {
				err.Meta().Set(replayed, "true")
			}
			return nil, err
		}
		answer := connect.NewResponse(wrapperspb.String(made.value))
		if again {
			answer.Header().Set(replayed, "true")
		}
		return answer, nil
	}
	get := func(_ context.Context, r *request) (*response, error) {
		return connect.NewResponse(wrapperspb.String("got " + r.Msg.Value)), nil
	}
	watch := func(_ context.Context, stream *connect.BidiStream[wrapperspb.StringValue, wrapperspb.StringValue]) error {
		for {
			message, err := stream.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.Send(wrapperspb.String("saw " + message.Value)); err != nil {
				return err
			}
		}
	}
	mux := http.NewServeMux()
	mux.Handle(service+"Create", connect.NewUnaryHandler(service+"Create", create))
	mux.Handle(service+"Get", connect.NewUnaryHandler(service+"Get", get, connect.WithIdempotency(connect.IdempotencyNoSideEffects)))
	mux.Handle(service+"Watch", connect.NewBidiStreamHandler(service+"Watch", watch))
	return mux
}

// What the test wants to have called. A call of `Watch` sends all values, and waits for the answer to each before it sends the next.
type calls struct {
	Address, Library string
	Calls            []call
}

type call struct {
	Method, Key, Token string
	Values             []string
}

// What a client sees.
type outcome struct {
	Values   []string `json:"values,omitempty"`
	Replayed bool     `json:"replayed,omitempty"`
	Code     string   `json:"code,omitempty"`
	Message  string   `json:"message,omitempty"`
	// Of the details and of the metadata.
	Reason string `json:"reason,omitempty"`
	Retry  string `json:"retry,omitempty"`
	Advice string `json:"advice,omitempty"`
	After  string `json:"after,omitempty"`
}

func (o *outcome) details(info *errdetails.ErrorInfo) {
	o.Reason, o.Retry = info.Reason, info.Metadata["retry"]
}

func callAll(text string) error {
	var wanted calls
	if err := json.Unmarshal([]byte(text), &wanted); err != nil {
		return err
	}
	seen := []outcome{}
	for _, one := range wanted.Calls {
		var result outcome
		if wanted.Library == "grpc-go" {
			result = viaGRPC(wanted.Address, one)
		} else {
			result = viaConnect(wanted.Address, wanted.Library, one)
		}
		seen = append(seen, result)
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}

func viaGRPC(address string, one call) outcome {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return outcome{Message: err.Error()}
	}
	defer connection.Close()
	out := metadata.MD{}
	if one.Key != "" {
		out.Set(keyName, one.Key)
	}
	if one.Token != "" {
		out.Set("authorization", "Bearer "+one.Token)
	}
	ctx := metadata.NewOutgoingContext(context.Background(), out)
	var result outcome
	var header, trailer metadata.MD
	if one.Method == "Watch" {
		var stream grpc.ClientStream
		stream, err = connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, service+one.Method)
		for _, value := range one.Values {
			answer := new(wrapperspb.StringValue)
			if err == nil {
				// An error of SendMsg is io.EOF: RecvMsg has the cause.
				_ = stream.SendMsg(wrapperspb.String(value))
				err = stream.RecvMsg(answer)
			}
			if err == nil {
				result.Values = append(result.Values, answer.Value)
			}
		}
		if err == nil {
			_ = stream.CloseSend()
			if end := stream.RecvMsg(new(wrapperspb.StringValue)); end != io.EOF {
				err = end
			}
		}
		if stream != nil {
			header, _ = stream.Header()
			trailer = stream.Trailer()
		}
	} else {
		answer := new(wrapperspb.StringValue)
		err = connection.Invoke(ctx, service+one.Method, wrapperspb.String(one.Values[0]), answer, grpc.Header(&header), grpc.Trailer(&trailer))
		if err == nil {
			result.Values = []string{answer.Value}
		}
	}
	both := metadata.Join(header, trailer)
	first := func(name string) string { return strings.Join(both.Get(name), ",") }
	result.Replayed = first(replayed) == "true"
	result.Advice, result.After = first("idempotency-retry"), first("retry-after")
	if err != nil {
		found := status.Convert(err)
		result.Code, result.Message = snake(found.Code().String()), found.Message()
		for _, detail := range found.Details() {
			if info, ok := detail.(*errdetails.ErrorInfo); ok {
				result.details(info)
			}
		}
	}
	return result
}

// `InvalidArgument` as Connect writes it.
func snake(name string) string {
	var text strings.Builder
	for at, letter := range name {
		if at > 0 && letter >= 'A' && letter <= 'Z' {
			text.WriteByte('_')
		}
		text.WriteString(strings.ToLower(string(letter)))
	}
	return text.String()
}

func viaConnect(address, library string, one call) outcome {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	options := []connect.ClientOption{}
	switch library {
	case "connect-go: connect, JSON":
		options = append(options, connect.WithProtoJSON())
	case "connect-go: gRPC":
		options = append(options, connect.WithGRPC())
	case "connect-go: gRPC-Web":
		options = append(options, connect.WithGRPCWeb())
	}
	if one.Method == "Get" {
		options = append(options, connect.WithIdempotency(connect.IdempotencyNoSideEffects), connect.WithHTTPGet())
	}
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](
		&http.Client{Transport: transport}, "http://"+address+service+one.Method, options...)
	set := func(header http.Header) {
		if one.Key != "" {
			header.Set(keyName, one.Key)
		}
		if one.Token != "" {
			header.Set("Authorization", "Bearer "+one.Token)
		}
	}
	var result outcome
	var err error
	var header http.Header
	if one.Method == "Watch" {
		stream := client.CallBidiStream(context.Background())
		set(stream.RequestHeader())
		for _, value := range one.Values {
			var answer *wrapperspb.StringValue
			if err == nil {
				_ = stream.Send(wrapperspb.String(value))
				answer, err = stream.Receive()
			}
			if err == nil {
				result.Values = append(result.Values, answer.Value)
			}
		}
		if err == nil {
			_ = stream.CloseRequest()
			if _, end := stream.Receive(); !errors.Is(end, io.EOF) {
				err = end
			}
		}
		header = stream.ResponseHeader()
	} else {
		var answer *connect.Response[wrapperspb.StringValue]
		request := connect.NewRequest(wrapperspb.String(one.Values[0]))
		set(request.Header())
		answer, err = client.CallUnary(context.Background(), request)
		if err == nil {
			result.Values, header = []string{answer.Msg.Value}, answer.Header()
		}
	}
	var found *connect.Error
	if errors.As(err, &found) {
		header = found.Meta()
		result.Code, result.Message = found.Code().String(), found.Message()
		for _, detail := range found.Details() {
			value, err := detail.Value()
			if info, ok := value.(*errdetails.ErrorInfo); err == nil && ok {
				result.details(info)
			}
		}
	}
	result.Replayed = header.Get(replayed) == "true"
	result.Advice, result.After = header.Get("Idempotency-Retry"), header.Get("Retry-After")
	return result
}
