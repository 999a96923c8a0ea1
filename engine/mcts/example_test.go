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
