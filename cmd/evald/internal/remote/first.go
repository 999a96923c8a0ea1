//go:build first

package remote

import (
	"errors"

	"github.com/evald/evald/nn/open"
)

// Open refuses the name: a program with the tag first has no gRPC.
func Open(open.Name) (open.Connected, error) {
	return nil, errors.New("this is the program of make run, which asks no services: make build builds bin/evald, which does")
}
