// Command millrace is the job server and its tools.
package main

import (
	"os"

	"millrace/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Process{Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}))
}
