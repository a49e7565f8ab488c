//go:build !amd64

package main

// wazeroIsKnown is true: on other processors wazero needs no help.
const wazeroIsKnown = true
