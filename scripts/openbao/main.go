// OpenBao's server and command line, built from its published modules: see go.mod.
package main

import (
	"os"

	"github.com/openbao/openbao/command"
)

func main() {
	os.Exit(command.Run(os.Args[1:]))
}
