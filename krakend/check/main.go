// Command check checks a krakend.json as the bridge does at its start, without KrakenD and without the secrets of production:
//
//	go run ./check [--custom-build] [--policy FILE] [--module FILE] krakend.json
//
// It listens nowhere. It asks the module what the policy needs; without the module the two files are not compared, and a note says
// so. A variable that is missing here is a note, because it has to be on the gateway's machine. Notes and mistakes go to the standard
// error. Exit status: 0 if there are notes at most, 2 if KrakenD would not serve the file, or it cannot be read.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"edge-idempotency/krakend/gateway"
)

func main() { os.Exit(run(os.Args[1:], os.LookupEnv, os.Stderr)) }

// run returns the exit status.
func run(arguments []string, lookup func(string) (string, bool), out io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(out)
	customBuild := flags.Bool("custom-build", false, "the bridge is built into KrakenD; without it the bridge is a plugin")
	policy := flags.String("policy", "", "a `FILE` in the place of policy_file")
	module := flags.String("module", "", "a `FILE` in the place of module")
	flags.Usage = func() {
		fmt.Fprintln(out, "usage: check [--custom-build] [--policy FILE] [--module FILE] krakend.json")
		flags.PrintDefaults()
	}
	if flags.Parse(arguments) != nil {
		return 2
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return 2
	}
	// What a custom build has in config.ExtraConfigAlias is seen at its start only.
	notes, err := gateway.Check(flags.Arg(0), gateway.LoadOptions{
		Plugin: !*customBuild, Aliases: gateway.Aliases(), Elsewhere: true, PolicyFile: *policy, ModuleFile: *module, LookupEnv: lookup,
	})
	for _, note := range notes {
		fmt.Fprintln(out, "note:", note)
	}
	if err != nil {
		fmt.Fprintln(out, "error:", err)
		return 2
	}
	return 0
}
