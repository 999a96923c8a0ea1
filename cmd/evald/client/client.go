// Package client evaluates positions on a running `evald serve`.
//
//	c, err := client.Dial("127.0.0.1:8001", "bitsquares", grpc.WithTransportCredentials(insecure.NewCredentials()))
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	b := eval.NewBatch(game.MustBoard(game.Connect4), 1) // of the empty board
//	err = eval.New(c, eval.Options{}).Evaluate(ctx, b)
//	fmt.Println(b.WDLRow(0), b.PolicyRow(0), b.Source[0])
//
// A Client is an eval.Backend, so that searches and everything else can evaluate on another machine.
package client

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Client evaluates with one model of one or several servers. It sends each batch to the server that is computing the fewest of this
// client's rows. It is safe for concurrent use. Several servers are faster than one only with concurrent calls.
//
// gRPC's own round_robin gives slow and fast servers the same number of batches: with two servers, one of them four times as slow, it
// reached half of this client's rate for two and for eight callers (BenchmarkUnequalServers). gRPC's least_request is as fast as this
// client, but prefers a server that refuses everything, because that server has nothing in progress.
type Client struct {
	model   string
	servers []*server
	mu      sync.Mutex
}

type server struct {
	conn *grpc.ClientConn
	api  kserve.GRPCInferenceServiceClient
	rows int // in progress; guarded by the client's mu
}

// Dial returns a client of a model. addresses is the gRPC port of its server, HOST:PORT, or of several servers with the same model,
// HOST:PORT+HOST:PORT. The client connects at its first use, and again after a connection has ended. The options must include
// grpc.WithTransportCredentials, with or without TLS. An error concerns the addresses or the options.
func Dial(addresses, model string, options ...grpc.DialOption) (*Client, error) {
	c := &Client{model: model}
	for address := range strings.SplitSeq(addresses, "+") {
		conn, err := grpc.NewClient(address, options...)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.servers = append(c.servers, &server{conn: conn, api: kserve.NewGRPCInferenceServiceClient(conn)})
	}
	return c, nil
}

// Close closes all connections. Calls in progress return an error.
func (c *Client) Close() (err error) {
	for _, s := range c.servers {
		err = errors.Join(err, s.conn.Close())
	}
	return err
}

// Attributes implements eval.Backend. Each call has a fixed cost, so larger batches are better.
func (*Client) Attributes() eval.Attributes { return eval.Attributes{Rows: 256, Invariant: true} }

// Compute implements eval.Backend with one call for the whole batch, with the parameters raw and any_position. If a server is overloaded, is
// shutting down or cannot be reached, the batch goes to the next one; if no server can answer, Compute returns the error of the last one.
// Errors of a server wrap a gRPC status: ResourceExhausted if it is overloaded, and Unavailable if it is shutting down or cannot be reached.
// After these two the same request may succeed later. Compute also returns an error if a server has answered a row by the rules.
func (c *Client) Compute(ctx context.Context, b *eval.Batch) error {
	for left := slices.Clone(c.servers); ; {
		s := c.take(left, len(b.Pos))
		err := s.compute(ctx, c.model, b)
		c.mu.Lock()
		s.rows -= len(b.Pos)
		c.mu.Unlock()
		code := status.Code(err)
		left = slices.DeleteFunc(left, func(o *server) bool { return o == s })
		if len(left) == 0 || ctx.Err() != nil || code != codes.Unavailable && code != codes.ResourceExhausted {
			return err
		}
	}
}

// take counts rows as in progress at the best of some servers and returns it: a server that could be reached at the last attempt and, of
// these, the one with the fewest rows in progress.
func (c *Client) take(of []*server, rows int) *server {
	c.mu.Lock()
	defer c.mu.Unlock()
	best := slices.MinFunc(of, func(a, b *server) int {
		return cmp.Or(cmp.Compare(a.unreachable(), b.unreachable()), cmp.Compare(a.rows, b.rows))
	})
	best.rows += rows
	return best
}

func (s *server) unreachable() int {
	if s.conn.GetState() == connectivity.TransientFailure {
		return 1
	}
	return 0
}

// wants lists the outputs that fill a batch, in the order in which compute reads them.
var wants = []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: "wdl"}, {Name: "policy"}, {Name: "source"}}

var yes = &kserve.InferParameter{ParameterChoice: &kserve.InferParameter_BoolParam{BoolParam: true}}

func (s *server) compute(ctx context.Context, model string, b *eval.Batch) error {
	rules, width := b.Board.Rules().String(), int64(2)
	if b.Board.Wide() {
		width = 4
	}
	r, err := s.api.ModelInfer(ctx, &kserve.ModelInferRequest{
		ModelName: model,
		Parameters: map[string]*kserve.InferParameter{
			"board":        {ParameterChoice: &kserve.InferParameter_StringParam{StringParam: rules}},
			"raw":          yes,
			"any_position": yes, // a backend on this machine accepts any position, too
		},
		Inputs:           []*kserve.ModelInferRequest_InferInputTensor{{Name: "bitboards", Datatype: "UINT64", Shape: []int64{int64(len(b.Pos)), width}}},
		Outputs:          wants,
		RawInputContents: [][]byte{Bitboards(b.Board, b.Pos)},
	})
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("evaluate: %w: %w", ctx.Err(), err)
		}
		return fmt.Errorf("evaluate: %w", err)
	}
	if len(r.RawOutputContents) != len(wants) {
		return fmt.Errorf("evaluate: the server sent %d outputs, want %d", len(r.RawOutputContents), len(wants))
	}
	if err := floats(b.WDL, r.RawOutputContents[0]); err != nil {
		return fmt.Errorf("evaluate: wdl: %w", err)
	}
	if err := floats(b.Policy, r.RawOutputContents[1]); err != nil {
		return fmt.Errorf("evaluate: policy: %w", err)
	}
	return sources(b.Source, r.RawOutputContents[2])
}

// Bitboards encodes positions for the service's input "bitboards", as little-endian words of 64 bits: [N,2], or [N,4] on a wide board
// (game.Board.Wide).
func Bitboards(board *game.Board, pos []game.Position) []byte {
	raw := make([]byte, 0, 32*len(pos))
	for _, p := range pos {
		raw = binary.LittleEndian.AppendUint64(raw, p.Own.Lo)
		if board.Wide() {
			raw = binary.LittleEndian.AppendUint64(raw, p.Own.Hi)
		}
		raw = binary.LittleEndian.AppendUint64(raw, p.All.Lo)
		if board.Wide() {
			raw = binary.LittleEndian.AppendUint64(raw, p.All.Hi)
		}
	}
	return raw
}

func floats(to []float32, raw []byte) error {
	if len(raw) != 4*len(to) {
		return fmt.Errorf("%d bytes came, want %d", len(raw), 4*len(to))
	}
	for i := range to {
		to[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}

// sources decodes names, each of which is preceded by its length in four bytes.
func sources(to []eval.Source, raw []byte) error {
	for i := range to {
		if len(raw) < 4 || uint64(len(raw)-4) < uint64(binary.LittleEndian.Uint32(raw)) {
			return fmt.Errorf("evaluate: source: %d rows came, want %d", i, len(to))
		}
		n := binary.LittleEndian.Uint32(raw)
		if name := raw[4 : 4+n]; i > 0 && string(name) == to[i-1].String() {
			to[i] = to[i-1]
		} else if s, ok := eval.ParseSource(string(name)); ok {
			to[i] = s
		} else {
			to[i] = eval.Source(name) // a heuristic, possibly one that this client does not know
		}
		switch to[i] {
		case eval.None, eval.Terminal, eval.Rules, eval.Forced:
			return fmt.Errorf("evaluate: row %d is answered by source %q, but raw rows were asked for: the server does not know the parameter raw", i, to[i])
		}
		raw = raw[4+n:]
	}
	return nil
}
