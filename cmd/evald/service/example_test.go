package service_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/cmd/evald/service"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/open"
)

// load opens a model when the server starts, and again when it is loaded anew. The server closes it after its last batch.
func load(m service.Model) (service.Loaded, error) {
	e, err := open.Open(open.Options{Backend: m.Name})
	if err != nil {
		return service.Loaded{}, err
	}
	return service.Loaded{Backend: e.Backend(), Close: e.Close, Version: "1", Platform: service.HeuristicPlatform, Describe: e.How}, nil
}

// A program serves the heuristic bitsquares over gRPC, and asks it.
func Example() {
	server, err := service.New(service.Config{
		Rules: game.Connect4, Models: []service.Model{{Name: "bitsquares"}}, Load: load,
		DrainTime: time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		server.Close()
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, service.Listeners{GRPC: l}) }()

	c, err := client.Dial(l.Addr().String(), "bitsquares", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	b := eval.NewBatch(game.MustBoard(game.Connect4), 1)
	if err := c.Compute(ctx, b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.3f %v\n", b.WDLRow(0), b.Source[0])
	c.Close()

	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// [0.500 0.000 0.500] bitsquares
	// ended: <nil>
}
