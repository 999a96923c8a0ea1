package main

import (
	"context"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/open"
)

// A model on other machines is grpc://HOST:PORT/MODEL, or grpcs:// with TLS. + separates several servers, because a comma would end the
// model in an agent's options.
const (
	remotePlain  = "grpc://"
	remoteSecure = "grpcs://"
)

// remoteToken is the environment variable of the bearer token. Model names are written to files, so they must not contain the token.
const remoteToken = "EVALD_MODEL_TOKEN"

// isRemote reports whether a model is on other machines.
func isRemote(model string) bool {
	return strings.HasPrefix(model, remotePlain) || strings.HasPrefix(model, remoteSecure)
}

// openRemote opens a model on other machines. It connects at the first batch; the connections last until the program ends.
func (f backend) openRemote() (*open.Opened, error) {
	if f.Backend != open.Auto || f.GPUs != "" || f.Mirror {
		return nil, usage("--backend, --gpus and --mirror do nothing with a model of another machine")
	}
	hosts, model, secure := remoteParts(f.Model)
	if hosts == "" || model == "" {
		return nil, usage("the model must be grpc://HOST:PORT/MODEL, or grpc://HOST:PORT+HOST:PORT/MODEL for several servers")
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if secure {
		options = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(nil))}
	}
	if token := os.Getenv(remoteToken); token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	c, err := client.Dial(hosts, model, options...)
	if err != nil {
		return nil, usage("the model of another machine: %w", err)
	}
	return &open.Opened{Evaluator: eval.New(c, eval.Options{}), Model: remoteName(f.Model), Network: true, How: "by evald serve at " + hosts}, nil
}

func remoteParts(ref string) (hosts, model string, secure bool) {
	where, secure := strings.CutPrefix(ref, remoteSecure)
	hosts, model, _ = strings.Cut(strings.TrimPrefix(where, remotePlain), "/")
	return hosts, model, secure
}

// remoteName returns the name that answers report for a model on other machines.
func remoteName(ref string) string {
	hosts, model, _ := remoteParts(ref)
	return short.To(model+" at "+hosts, 200)
}

// bearer is a token that the client sends with each call.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. As with the service, TLS is the user's choice.
func (bearer) RequireTransportSecurity() bool { return false }
