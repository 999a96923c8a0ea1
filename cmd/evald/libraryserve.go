package main

import "github.com/evald/evald/cmd/evald/internal/library"

// libraryCmd is `evald library`, which the Python package starts where it has no library.
type libraryCmd struct{}

func (*libraryCmd) Run(s streams) error { return library.Serve(s.in, s.out, version()) }
