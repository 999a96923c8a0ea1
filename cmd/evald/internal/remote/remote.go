//go:build !first

// Package remote connects to models of services by their names (open.Name).
package remote

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/nn/open"
)

// Token is the environment variable of the bearer token. Model names are written to files, so they must not contain the token.
const Token = "EVALD_MODEL_TOKEN"

// Open is open.Options.Service. It connects at the first batch.
func Open(name open.Name) (open.Connected, error) {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if name.Secure {
		options = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(nil))}
	}
	if token := os.Getenv(Token); token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	c, err := client.Dial(name.Hosts, name.Model, options...)
	if err != nil {
		return nil, fmt.Errorf("the model of another machine: %w", err)
	}
	return c, nil
}

// bearer is a token that the client sends with each call.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. As with the service, TLS is the user's choice.
func (bearer) RequireTransportSecurity() bool { return false }
