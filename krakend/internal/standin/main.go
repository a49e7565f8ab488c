package standin

import (
	"errors"
	"flag"
	"io"
	"strings"
)

// Arguments is what a stand-in is started with: `run -c krakend.json --listen 127.0.0.1:0`, as KrakenD's own command but for
// --listen.
type Arguments struct {
	// Config is the path of krakend.json.
	Config string
	// Listen is host:port; port 0 lets the system choose. Without it the port is that of krakend.json.
	Listen string
}

// ParseArguments reads os.Args.
func ParseArguments(arguments []string) (*Arguments, error) {
	if len(arguments) < 2 || arguments[1] != "run" {
		return nil, errors.New("usage: run -c krakend.json [--listen host:port]")
	}
	a := &Arguments{}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&a.Config, "c", "", "krakend.json")
	flags.StringVar(&a.Config, "config", "", "krakend.json")
	flags.StringVar(&a.Listen, "listen", "", "host:port")
	flags.BoolVar(new(bool), "d", false, "debug")
	if err := flags.Parse(separated(arguments[2:])); err != nil {
		return nil, err
	}
	if a.Config == "" {
		return nil, errors.New("name the configuration: run -c krakend.json")
	}
	return a, nil
}

// separated writes the flags -d and -c apart, which KrakenD's command takes behind one dash.
func separated(arguments []string) []string {
	var all []string
	for _, argument := range arguments {
		for strings.HasPrefix(argument, "-d") && len(argument) > 2 {
			all, argument = append(all, "-d"), "-"+argument[2:]
		}
		all = append(all, argument)
	}
	return all
}
