package mcts_test

import (
	"context"
	"fmt"
	"log"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
)

// A search of one position, with the heuristic bitsquares at its leaves. Many trees may be searched at once, and share the
// evaluator's batches.
func ExampleSearch() {
	evaluator, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		log.Fatal(err)
	}
	board := game.MustBoard(game.Connect4)
	position, _, err := board.ParseMoves("4433") // two in a row, with room at both sides
	if err != nil {
		log.Fatal(err)
	}
	tree, err := mcts.New(board, mcts.DefaultConfig(mcts.PUCT))
	if err != nil {
		log.Fatal(err)
	}
	tree.Reset(position)
	if err := mcts.Search(context.Background(), evaluator, []*mcts.Tree{tree}, mcts.Limits{Visits: 500, Batch: 1}); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("a proved %v, in %d plies\n", tree.Result(), len(tree.Line(nil)))
	for _, move := range tree.Moves(nil) {
		if move.Action == tree.Best() {
			fmt.Printf("by the best move, which makes three in a row: %v, value %.0f\n", move.Result, move.Q)
		}
	}
	// Output:
	// a proved win, in 3 plies
	// by the best move, which makes three in a row: win, value 1
}

// middle is a network of a program's own: a Backend of ten lines. It likes the middle, and knows no better.
type middle struct{}

func (middle) Attributes() eval.Attributes { return eval.Attributes{Rows: 256, Invariant: true} }

func (middle) Compute(_ context.Context, b *eval.Batch) error {
	for i, p := range b.Pos {
		copy(b.WDLRow(i), []float32{0.3, 0.4, 0.3})
		total, policy := float32(0), b.PolicyRow(i)
		for a := range policy {
			if policy[a] = 0; b.Board.CanPlay(p, a) {
				policy[a] = float32(1 + min(a, len(policy)-1-a))
				total += policy[a]
			}
		}
		for a := range policy {
			policy[a] /= total
		}
		b.Source[i] = eval.Function
	}
	return nil
}

// A search with a network of the program's own. The evaluator makes all checks, and adds the rules.
func ExampleNewEvaluator() {
	search, err := mcts.NewEvaluator(eval.New(middle{}, eval.Options{}), mcts.DefaultConfig(mcts.PUCT), mcts.Limits{Visits: 100, Batch: 256})
	if err != nil {
		log.Fatal(err)
	}
	b := eval.NewBatch(game.MustBoard(game.Connect4), 64) // empty boards, searched at once
	if err := search.Evaluate(context.Background(), b); err != nil {
		log.Fatal(err)
	}
	best := 0
	for a, share := range b.PolicyRow(63) {
		if share > b.PolicyRow(63)[best] {
			best = a
		}
	}
	fmt.Println("column", best+1, "by", b.Source[63])
	// Output:
	// column 4 by search
}
