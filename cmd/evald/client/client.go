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
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/grpc"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Client asks one model of one server. It is safe for concurrent use.
type Client struct {
	conn  *grpc.ClientConn
	api   kserve.GRPCInferenceServiceClient
	model string
}

// Dial is a client of the model with that name, on the server whose gRPC port is at address, HOST:PORT. It connects when it
// is first used. The options say how, and must say whether by TLS (grpc.WithTransportCredentials). An error is one of the
// address or the options.
func Dial(address, model string, options ...grpc.DialOption) (*Client, error) {
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		return nil, err
	}
	return &Client{conn, kserve.NewGRPCInferenceServiceClient(conn), model}, nil
}

// Close ends the connection. Calls under way end with an error.
func (c *Client) Close() error { return c.conn.Close() }

// Attributes implements eval.Backend. A call has a price of its own, so larger batches are better.
func (*Client) Attributes() eval.Attributes { return eval.Attributes{Rows: 256, Invariant: true} }

// wants are the outputs that a batch has room for, in the order in which Compute reads them.
var wants = []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: "wdl"}, {Name: "policy"}, {Name: "source"}}

// Compute implements eval.Backend, with one call for the whole batch, which asks for raw rows. Errors of the server wrap a
// gRPC status: ResourceExhausted if it has too much to do, and Unavailable if it is shutting down or cannot be reached. After
// these two the same request may succeed later. It is an error if the server has answered a row by the rules.
func (c *Client) Compute(ctx context.Context, b *eval.Batch) error {
	rules, width := b.Board.Rules().String(), int64(2)
	if b.Board.Wide() {
		width = 4
	}
	r, err := c.api.ModelInfer(ctx, &kserve.ModelInferRequest{
		ModelName: c.model,
		Parameters: map[string]*kserve.InferParameter{
			"board": {ParameterChoice: &kserve.InferParameter_StringParam{StringParam: rules}},
			"raw":   {ParameterChoice: &kserve.InferParameter_BoolParam{BoolParam: true}},
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
		return fmt.Errorf("evaluate: %d outputs came, want %d", len(r.RawOutputContents), len(wants))
	}
	if err := floats(b.WDL, r.RawOutputContents[0]); err != nil {
		return fmt.Errorf("evaluate: wdl: %w", err)
	}
	if err := floats(b.Policy, r.RawOutputContents[1]); err != nil {
		return fmt.Errorf("evaluate: policy: %w", err)
	}
	return sources(b.Source, r.RawOutputContents[2])
}

// Bitboards are positions as the service's input "bitboards" takes them: little-endian words of 64 bits, [N,2], or [N,4] on a
// wide board (game.Board.Wide).
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

// sources reads names, each after its length in four bytes.
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
			to[i] = eval.Source(name) // a heuristic, also one that this client does not know
		}
		switch to[i] {
		case eval.None, eval.Terminal, eval.Rules, eval.Forced:
			return fmt.Errorf("evaluate: row %d is answered by source %q, but raw rows were asked for: the server does not know the parameter raw", i, to[i])
		}
		raw = raw[4+n:]
	}
	return nil
}
