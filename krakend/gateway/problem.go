package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"edge-idempotency/krakend/bridge"
)

// problems makes the gateway's own problem documents (docs/contract.md section 8), for requests that the module cannot answer.
type problems struct {
	docsURL      string
	retryHeaders []string
	errorMember  bool
}

func newProblems(needs *policyNeeds) problems {
	return problems{docsURL: needs.DocsURL, retryHeaders: needs.RetryHeaders, errorMember: needs.ErrorMember}
}

// document is a problem document; the order of members is that of the module.
type document struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Code   string         `json:"code"`
	Retry  string         `json:"retry"`
	Error  *documentError `json:"error,omitempty"`
}

// documentError is the member `error` of documents with error_member.
type documentError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	DocURL  string `json:"doc_url,omitempty"`
}

// Misconfigured is the answer to a request that the configuration leaves undecided: 503 policy_invalid, in the module's words. What
// the operator has to mend is in the log.
func Misconfigured() *http.Response { return problems{}.misconfigured() }

// again is the advice of an answer of the bridge's own.
const again = " Send the same request again later, with the same idempotency key if it had one: then nothing is done twice."

// message is the bridge's own answer where the module cannot answer.
func (p problems) message(cause bridge.Cause) *bridge.Message {
	var response *http.Response
	switch cause {
	case bridge.CauseFault:
		response = p.make(document{Title: "Internal error", Status: http.StatusServiceUnavailable,
			Detail: "The gateway has failed to handle the request." + again, Code: "internal_error", Retry: "same_key"})
	case bridge.CauseBody:
		response = p.make(document{Title: "Request invalid", Status: http.StatusBadRequest,
			Detail: "The request's body is malformed or incomplete.", Code: "request_invalid", Retry: "never"})
	default:
		response = p.unavailable("The service cannot be reached right now, or is busy." + again)
	}
	header := append(bridge.Header{{Name: ":status", Value: strconv.Itoa(response.StatusCode)}}, bridge.HeaderFrom(response.Header)...)
	return &bridge.Message{Header: header, Body: response.Body}
}

func (p problems) misconfigured() *http.Response {
	return p.make(document{Title: "Gateway misconfigured", Status: http.StatusServiceUnavailable, Code: "policy_invalid", Retry: "never",
		Detail: "The service is set up wrongly and cannot take this request. Its operator has to mend that."})
}

func (p problems) unavailable(detail string) *http.Response {
	return p.make(document{Title: "Temporarily unavailable", Status: http.StatusServiceUnavailable, Detail: detail, Code: "dependency_unavailable", Retry: "same_key"})
}

func (p problems) notFound() *http.Response {
	return p.make(document{Title: "Not found", Status: http.StatusNotFound, Detail: "There is no such path on this host.", Code: "not_found", Retry: "never"})
}

func (p problems) pathAmbiguous() *http.Response {
	return p.make(document{Title: "Path ambiguous", Status: http.StatusBadRequest, Code: "path_ambiguous", Retry: "never",
		Detail: "The path could be read in more than one way: send it in its plain form, without dot segments and control characters."})
}

func (p problems) cutOff() *http.Response {
	return p.make(document{Title: "Temporarily unavailable", Status: http.StatusServiceUnavailable,
		Detail: "The answer of the service broke off. Send the same request again, with the same idempotency key if it had one.", Code: "dependency_unavailable", Retry: "same_key"})
}

func (p problems) make(d document) *http.Response {
	d.Type = "about:blank"
	header := http.Header{}
	if p.docsURL != "" {
		d.Type = p.docsURL + "#" + d.Code
		header.Set("Link", "<"+p.docsURL+`>; rel="describedby"`)
	}
	if p.errorMember {
		d.Error = &documentError{Code: d.Code, Message: d.Detail, Type: "invalid_request_error"}
		if d.Status >= 500 {
			d.Error.Type = "api_error"
		}
		if p.docsURL != "" {
			d.Error.DocURL = d.Type
		}
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(d)
	text := bytes.TrimRight(body.Bytes(), "\n")
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Language", "en")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	header.Set("Idempotency-Retry", d.Retry)
	again := d.Retry == "same_key"
	if again {
		header.Set("Retry-After", "5")
	}
	for _, name := range p.retryHeaders {
		header.Set(name, strconv.FormatBool(again))
	}
	return newResponse(d.Status, header, io.NopCloser(bytes.NewReader(text)), int64(len(text)))
}

func newResponse(status int, header http.Header, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: body, ContentLength: length,
	}
}
