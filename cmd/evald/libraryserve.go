package main

import (
	"context"

	"github.com/evald/evald/cmd/evald/internal/library"
)

// libraryCmd is `evald library`, which the Python package starts if it has no library.
type libraryCmd struct{}

func (*libraryCmd) Run(ctx context.Context, s streams) error {
	ended := make(chan error, 1)
	go func() { ended <- library.Serve(s.in, s.out, version()) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done(): // a read of input cannot be interrupted; it ends with the program
		return ctx.Err()
	}
}
