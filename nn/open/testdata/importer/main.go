// Command importer is another module's program: it evaluates two positions, and then searches one of them.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/nn/open"
)

func main() {
	e, err := open.Open(open.Options{})
	must(err)
	defer e.Close()
	ctx, board := context.Background(), game.MustBoard(game.Connect4)
	b := eval.NewBatch(board, 2) // two empty boards
	b.Pos[1], _, err = board.ParseMoves("445566")
	must(err)
	must(e.Evaluate(ctx, b))
	fmt.Printf("model %s, a network %v: %v\n", e.ModelOn(board.Rules()), e.Network, b.Source[0].Network())
	fmt.Printf("the first row adds up to %.3f, the second is %.0f by %v\n", b.WDL[0]+b.WDL[1]+b.WDL[2], b.WDLRow(1), b.Source[1])

	config := mcts.DefaultConfig(mcts.PUCT)
	config.Visits = 100
	tree, err := mcts.New(board, config)
	must(err)
	tree.Reset(b.Pos[0])
	must(mcts.Search(ctx, e.Evaluator, []*mcts.Tree{tree}, mcts.Limits{Visits: config.Visits, Batch: 1}))
	fmt.Println("the search begins with column", tree.Best()+1)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
