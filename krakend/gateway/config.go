package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// The environment variables that tell where krakend.json is.
const (
	// ConfigVariable names krakend.json itself. It takes precedence over the others.
	ConfigVariable = "EDGE_IDEMPOTENCY_KRAKEND_CONFIG"
	// KrakenD's own: flexible configuration is on, and the file that it writes.
	flexibleEnable, flexibleOut = "FC_ENABLE", "FC_OUT"
)

// ConfigFile finds the krakend.json that the process runs with: the file that ConfigVariable names, else with flexible
// configuration the file that it writes (FC_OUT), else what -c or --config says in arguments (os.Args), in every form that
// KrakenD's own command takes. The error says what to set.
func ConfigFile(arguments []string) (string, error) {
	if file := os.Getenv(ConfigVariable); file != "" {
		return file, nil
	}
	if os.Getenv(flexibleEnable) != "" {
		if file := os.Getenv(flexibleOut); file != "" {
			return file, nil
		}
		return "", fmt.Errorf("flexible configuration is on (%s), and the bridge reads the expanded file: set %s to the file that KrakenD should write",
			flexibleEnable, flexibleOut)
	}
	if file := configFlag(arguments[min(1, len(arguments)):]); file != "" {
		return file, nil
	}
	return "", fmt.Errorf("the bridge does not find krakend.json: start KrakenD with -c FILE, or set %s", ConfigVariable)
}

// configFlag returns the value of --config in the arguments behind the program's name; "" if it is not there. It reads them as
// KrakenD's library for flags does (pflag, for the commands of krakend-cobra): flags stand anywhere, one-letter flags can share
// a dash, a value is joined or comes next, and the last one counts.
func configFlag(arguments []string) (file string) {
	// The flags with a value. All others are switches.
	long, short := map[string]string{"config": "config", "port": "port"}, map[byte]string{'c': "config", 'p': "port"}
	for at := 0; at < len(arguments); at++ {
		argument := arguments[at]
		var name, value string
		var hasValue bool
		switch {
		case argument == "--":
			return file
		case strings.HasPrefix(argument, "--"):
			var flag string
			flag, value, hasValue = strings.Cut(argument[2:], "=")
			name = long[flag]
		case strings.HasPrefix(argument, "-"):
			letters := argument[1:]
			for letters != "" && name == "" {
				name = short[letters[0]]
				letters = letters[1:]
				if len(letters) > 1 && letters[0] == '=' {
					value, hasValue, letters = letters[1:], true, ""
				} else if name != "" && letters != "" {
					value, hasValue = letters, true
				}
			}
		}
		if name == "" {
			continue
		}
		if !hasValue && at+1 < len(arguments) {
			at++
			value = arguments[at]
		}
		if name == "config" {
			file = value
		}
	}
	return file
}

// krakendFile is the part of krakend.json that the checks read. Names of members are compared without letter case, as
// KrakenD does.
type krakendFile struct {
	Timeout        duration `json:"timeout"`
	ReadTimeout    duration `json:"read_timeout"`
	OutputEncoding string   `json:"output_encoding"`

	// What follows is of connections to backends: see connections.go.
	DialerTimeout         duration   `json:"dialer_timeout"`
	DialerFallbackDelay   duration   `json:"dialer_fallback_delay"`
	DialerKeepAlive       duration   `json:"dialer_keep_alive"`
	IdleConnTimeout       duration   `json:"idle_connection_timeout"`
	ResponseHeaderTimeout duration   `json:"response_header_timeout"`
	MaxIdleConns          int        `json:"max_idle_connections"`
	MaxIdleConnsPerHost   int        `json:"max_idle_connections_per_host"`
	DisableKeepAlives     bool       `json:"disable_keep_alives"`
	AllowInsecure         bool       `json:"allow_insecure_connections"`
	ClientTLS             *clientTLS `json:"client_tls"`

	Endpoints   []krakendRoute `json:"endpoints"`
	ExtraConfig extraConfig    `json:"extra_config"`
	AsyncAgents []struct {
		Backend []krakendBackend `json:"backend"`
	} `json:"async_agent"`
	// repeated are the pointers of members that are there twice, where letter case does not count.
	repeated []string
}

// krakendRoute is one item of endpoints.
type krakendRoute struct {
	Endpoint        string           `json:"endpoint"`
	Method          string           `json:"method"`
	Backend         []krakendBackend `json:"backend"`
	ConcurrentCalls int              `json:"concurrent_calls"`
	Timeout         duration         `json:"timeout"`
	InputHeaders    []string         `json:"input_headers"`
	InputQuery      []string         `json:"input_query_strings"`
	OutputEncoding  string           `json:"output_encoding"`
	ExtraConfig     extraConfig      `json:"extra_config"`
}

// krakendBackend is one item of backend.
type krakendBackend struct {
	Host         []string    `json:"host"`
	Method       string      `json:"method"`
	URLPattern   string      `json:"url_pattern"`
	Encoding     string      `json:"encoding"`
	SD           string      `json:"sd"`
	InputHeaders []string    `json:"input_headers"`
	InputQuery   []string    `json:"input_query_strings"`
	ExtraConfig  extraConfig `json:"extra_config"`
}

// extraConfig is an extra_config by namespace.
type extraConfig map[string]json.RawMessage

// The namespaces that have an older name as well (krakend-ce, cmd/krakend-ce/main.go).
var aliases = map[string]string{
	"plugin/http-server": "github_com/devopsfaith/krakend/transport/http/server/handler",
	"plugin/http-client": "github.com/devopsfaith/krakend/transport/http/client/executor",
	"auth/validator":     "github.com/devopsfaith/krakend-jose/validator",
	"router":             "github_com/luraproject/lura/router/gin",
	"telemetry/logging":  "github_com/devopsfaith/krakend-gologging",
}

// get returns the value of a namespace under its name or its older one.
func (e extraConfig) get(name string) (json.RawMessage, bool) {
	value, ok := e[name]
	if !ok {
		value, ok = e[aliases[name]]
	}
	return value, ok
}

var errDuration = errors.New("no duration")

// duration is a time as KrakenD reads it: "3s", or a number of nanoseconds.
type duration time.Duration

// UnmarshalJSON reads the two forms.
func (d *duration) UnmarshalJSON(text []byte) error {
	var written string
	if json.Unmarshal(text, &written) == nil {
		value, err := time.ParseDuration(written)
		if err != nil {
			return errDuration
		}
		*d = duration(value)
		return nil
	}
	return json.Unmarshal(text, (*int64)(d))
}

// serverPlugins is extra_config["plugin/http-server"] of the service: the names of plugins, and the configuration of each
// beside them.
type serverPlugins struct {
	Name pluginNames     `json:"name"`
	Own  json.RawMessage `json:"edge-idempotency"`
}

// pluginNames are the names of plugins. KrakenD takes one name as well as a list.
type pluginNames []string

// UnmarshalJSON reads the two forms. KrakenD overlooks names of another type.
func (n *pluginNames) UnmarshalJSON(text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	listed, isList := value.([]any)
	if !isList {
		listed = []any{value}
	}
	for _, item := range listed {
		if name, ok := item.(string); ok {
			*n = append(*n, name)
		}
	}
	return nil
}

// serviceConfig is the bridge's own configuration, the member "edge-idempotency" of the service's plugin/http-server.
type serviceConfig struct {
	// Module is the path of the .wasm file.
	Module string `json:"module"`
	// Policy is the policy document.
	Policy json.RawMessage `json:"policy"`
	// PolicyFile is the path of the policy document, in place of Policy.
	PolicyFile string `json:"policy_file"`
	// Upstreams are the real backends and the services that the module calls, by the policy's names of clusters.
	Upstreams map[string]upstreamConfig `json:"upstreams"`
	// MetricsListen is the address of a listener that serves /metrics.
	MetricsListen string `json:"metrics_listen"`
	// LogRecords writes the record of each request into the log; nil stands for true.
	LogRecords *bool `json:"log_records"`
	// Instances is the number of instances of the module; 0 stands for one for each core.
	Instances int `json:"instances"`
	// DeadlineMs is the longest time of one call into the module, in milliseconds.
	DeadlineMs int `json:"deadline_ms"`
	// MemoryMiB is the most memory of one instance.
	MemoryMiB int `json:"memory_mib"`
	// RequestBufferBytes and ResponseBufferBytes are the most bytes kept of a body that the module waits for.
	RequestBufferBytes  int `json:"request_buffer_bytes"`
	ResponseBufferBytes int `json:"response_buffer_bytes"`
	// HeldBodiesMiB is the most that is kept of the bodies of all requests together.
	HeldBodiesMiB int `json:"held_bodies_mib"`
	// Interpreter runs the module in wazero's interpreter.
	Interpreter bool `json:"interpreter"`
}

// upstreamConfig is one item of upstreams.
type upstreamConfig struct {
	// URL is the scheme, the host and the port.
	URL string `json:"url"`
	// URLs are several of them, in place of URL: requests go to each in turn.
	URLs []string `json:"urls"`
	// TimeoutMs is the longest wait for the headers of an answer; 0 stands for response_header_timeout, or one minute.
	TimeoutMs int `json:"timeout_ms"`
	// CAFile is a PEM file of the authorities that sign the upstream's certificate; empty stands for those of client_tls, or the
	// system's.
	CAFile string `json:"ca_file"`
	// ClientCertFile and ClientKeyFile are PEM files of the certificate that the upstream asks for; empty stands for those of
	// client_tls.
	ClientCertFile string `json:"client_cert_file"`
	ClientKeyFile  string `json:"client_key_file"`
	// ClientCredentials gets a token for the upstream; nil: requests have none.
	ClientCredentials *credentialsConfig `json:"client_credentials"`
	// CircuitBreaker stops sending to an upstream that fails; nil: there is none.
	CircuitBreaker *breakerConfig `json:"circuit_breaker"`
}

// boundBackend is the member "edge-idempotency" of a backend's plugin/http-client.
type boundBackend struct {
	// Endpoint is the policy's name of the route, or Operations.
	Endpoint string `json:"endpoint"`
	// Upstream is the name of the real backend in upstreams.
	Upstream string `json:"upstream"`
}

// validatorConfig is the part of auth/validator that identity depends on.
type validatorConfig struct {
	AuthHeaderName  string     `json:"auth_header_name"`
	CookieKey       string     `json:"cookie_key"`
	Cache           bool       `json:"cache"`
	JWKLocalPath    string     `json:"jwk_local_path"`
	PropagateClaims [][]string `json:"propagate_claims"`
}

// override applies the environment variables that take the place of top-level members when KrakenD reads the file
// (krakend-koanf), as far as the checks read these members. KrakenD itself refuses a value of another type.
func (k *krakendFile) override(lookup func(string) (string, bool)) {
	value := reflect.ValueOf(k).Elem()
	for at := range value.NumField() {
		name, isMember := value.Type().Field(at).Tag.Lookup("json")
		text, ok := lookup("KRAKEND_" + strings.ToUpper(name))
		if !ok || !isMember {
			continue
		}
		switch into := value.Field(at).Addr().Interface().(type) {
		case *duration:
			if read, err := time.ParseDuration(text); err == nil {
				*into = duration(read)
			}
		case *int:
			if read, err := strconv.Atoi(text); err == nil {
				*into = read
			}
		case *bool:
			if read, err := strconv.ParseBool(text); err == nil {
				*into = read
			}
		case *string:
			*into = text
		}
	}
}

// durations are the names of the top-level members that are times.
func durations() (names []string) {
	kind := reflect.TypeFor[krakendFile]()
	for at := range kind.NumField() {
		if kind.Field(at).Type == reflect.TypeFor[duration]() {
			names = append(names, kind.Field(at).Tag.Get("json"))
		}
	}
	return names
}

// parse reads krakend.json. A template of flexible configuration is named as what it is.
func parse(file string, text []byte) (*krakendFile, error) {
	document := new(krakendFile)
	err := json.Unmarshal(text, document)
	if err == nil {
		document.repeated = repeatedNames(text)
		return document, nil
	}
	if bytes.Contains(text, []byte("{{")) {
		return nil, fmt.Errorf("%s is a template of flexible configuration, and the bridge reads the expanded file: start KrakenD with %s set to the file that it should write, e.g. %s=/tmp/krakend.json",
			file, flexibleOut, flexibleOut)
	}
	if errors.Is(err, errDuration) {
		return nil, fmt.Errorf("%s: %w", file, wrongDurations(text))
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := text[:min(int(syntax.Offset), len(text))]
		line := bytes.Count(before, []byte("\n")) + 1
		return nil, fmt.Errorf("%s, line %d: %w; the bridge reads krakend.json as JSON only: convert a YAML or TOML file", file, line, err)
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return nil, fmt.Errorf("%s: the member %s is a %s, and KrakenD expects a %s", file, kind.Field, kind.Value, kind.Type)
	}
	return nil, fmt.Errorf("%s: %w", file, err)
}

// wrongDurations finds the durations of krakend.json that cannot be read.
func wrongDurations(text []byte) Mistakes {
	var found Mistakes
	check := func(at string, members map[string]json.RawMessage, names ...string) {
		for member, value := range members {
			var read duration
			for _, name := range names {
				if strings.EqualFold(member, name) && errors.Is(json.Unmarshal(value, &read), errDuration) {
					found.add(at+pointer(member), "", "%s is no duration: write it as \"3s\" or \"1500ms\"", value)
				}
			}
		}
	}
	var service map[string]json.RawMessage
	_ = json.Unmarshal(text, &service)
	check("", service, durations()...)
	var list struct{ Endpoints []map[string]json.RawMessage }
	_ = json.Unmarshal(text, &list)
	for index, members := range list.Endpoints {
		check(pointer("endpoints", index), members, "timeout")
	}
	return found
}

// pointer joins the parts of a JSON pointer (RFC 6901).
func pointer(parts ...any) string {
	var text strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, part := range parts {
		text.WriteByte('/')
		text.WriteString(escape.Replace(fmt.Sprint(part)))
	}
	return text.String()
}

// sameHeader says whether two header names are the same where `_` counts as `-` and letter case does not count.
func sameHeader(one, other string) bool {
	return strings.EqualFold(strings.ReplaceAll(one, "_", "-"), strings.ReplaceAll(other, "_", "-"))
}
