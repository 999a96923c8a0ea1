package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

// rulePositions returns the number of random positions for a backend.
func rulePositions() int {
	if gametest.Soak() {
		return 100_000
	}
	return 2000
}

// With every evaluator, the rules answer what the next stones decide.
func TestRulesFirst(t *testing.T) {
	backends := map[string]backend{
		"cpu":                 {Backend: "cpu", Model: "seeded-2x16"},
		"cpu, mirrored":       {Backend: "cpu", Model: "seeded-2x16", Mirror: true},
		"auto":                {Backend: "auto", Model: "seeded-2x16"},
		"the shipped network": {Backend: "auto"},
	}
	for _, name := range heuristic.Names() {
		backends[name] = backend{Backend: name}
	}
	for name, from := range backends {
		t.Run(name, func(t *testing.T) {
			c, err := from.choose(io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			n := rulePositions()
			d := evaltest.Rules(t, c.Evaluator, game.MustBoard(game.Connect4), n, 18)
			if d.Won < n/10 || d.Lost < n/200 || d.Forced < n/20 {
				t.Errorf("of %d positions %+v: too few to tell", n, d)
			}
			evaltest.Rules(t, c.Evaluator, game.MustBoard(game.Rules{Columns: 9, Rows: 5, InARow: 4, Gravity: true}), 300, 18)
		})
	}
}

// asker asks a service as any program does, without the parameter raw.
type asker struct {
	api   kserve.GRPCInferenceServiceClient
	model string
}

// Attributes implements eval.Backend.
func (asker) Attributes() eval.Attributes { return eval.Attributes{Rows: 1000, Invariant: true} }

// Compute implements eval.Backend, for 7x6x4.
func (p asker) Compute(ctx context.Context, b *eval.Batch) error {
	r, err := p.api.ModelInfer(ctx, &kserve.ModelInferRequest{
		ModelName:        p.model,
		Inputs:           []*kserve.ModelInferRequest_InferInputTensor{{Name: "bitboards", Datatype: "UINT64", Shape: []int64{int64(len(b.Pos)), 2}}},
		Outputs:          []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: "wdl"}, {Name: "policy"}, {Name: "source"}},
		RawInputContents: [][]byte{client.Bitboards(b.Board, b.Pos)},
	})
	if err != nil {
		return err
	}
	names := r.RawOutputContents[2]
	for i := range b.Source {
		n := 4 + binary.LittleEndian.Uint32(names)
		b.Source[i], _ = eval.ParseSource(string(names[4:n]))
		names = names[n:]
	}
	_, err = binary.Decode(r.RawOutputContents[0], binary.LittleEndian, b.WDL)
	_, err2 := binary.Decode(r.RawOutputContents[1], binary.LittleEndian, b.Policy)
	return errors.Join(err, err2)
}

// The same holds for the service, with and without a cache, as programs see it that ask without raw.
func TestRulesFirstServed(t *testing.T) {
	for name, args := range map[string][]string{
		"bitsquares":  {"--backend", "bitsquares"},
		"seeded-2x16": {"--model", "seeded-2x16", "--cache", "10000", "--backend", "cpu"},
	} {
		address, _, stop := startServe(t, append(args, "--rows", "1000")...)
		served := asker{kserve.NewGRPCInferenceServiceClient(dialed(t, address["grpc"])), name}
		n := rulePositions()
		d := evaltest.Rules(t, evaltest.Raw(served), game.MustBoard(game.Connect4), n, 19)
		if d.Won < n/10 || d.Lost < n/200 || d.Forced < n/20 {
			t.Errorf("%s: of %d positions %+v: too few to tell", name, n, d)
		}
		if status := stop(); status != exitOK {
			t.Errorf("%s: status %d", name, status)
		}
	}
}
