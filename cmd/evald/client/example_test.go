package client_test

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
	"github.com/evald/evald/engine/heuristic"
)

// serve serves a backend as bitsquares on a free port, with one batch under way at a time.
func serve(b eval.Backend) (address string, stop func()) {
	s, err := service.New(service.Config{
		Rules: game.Connect4, Models: []service.Model{{Name: "bitsquares"}},
		Load: func(service.Model) (service.Loaded, error) {
			return service.Loaded{Backend: b, Version: "1", InFlight: 1}, nil
		},
		DrainTime: time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, service.Listeners{GRPC: l}) }()
	return l.Addr().String(), func() { cancel(); <-ended }
}

func Example() {
	bitsquares, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		log.Fatal(err)
	}
	address, stop := serve(bitsquares.Backend()) // evald serve --backend bitsquares, at 127.0.0.1:8001
	defer stop()

	c, err := client.Dial(address, "bitsquares", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	board := game.MustBoard(game.Connect4)
	b := eval.NewBatch(board, 2) // two positions, the second after 44554
	if b.Pos[1], _, err = board.ParseMoves("44554"); err != nil {
		log.Fatal(err)
	}
	if err := eval.New(c, eval.Options{}).Evaluate(context.Background(), b); err != nil {
		log.Fatal(err)
	}
	for i := range b.Pos {
		fmt.Printf("%.3f %.3f %v\n", b.WDLRow(i), b.PolicyRow(i), b.Source[i])
	}
	// Output:
	// [0.500 0.000 0.500] [0.114 0.132 0.152 0.203 0.152 0.132 0.114] bitsquares
	// [0.298 0.000 0.702] [0.058 0.094 0.185 0.183 0.284 0.114 0.082] bitsquares
}
