package open_test

import (
	"context"
	"fmt"
	"log"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/open"
)

// The network that ships evaluates two positions.
func ExampleOpen() {
	e, err := open.Open(open.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	board := game.MustBoard(game.Connect4)
	b := eval.NewBatch(board, 2) // two empty boards
	if b.Pos[1], _, err = board.ParseMoves("445566"); err != nil {
		log.Fatal(err)
	}
	if err := e.Evaluate(context.Background(), b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.ModelOn(board.Rules()), "answers; of a network:", b.Source[0].Network())
	fmt.Println("first move: better than even:", b.Value(0) > 0)
	// After 445566 the side to move has three in a row, and completes it in column 3 or 7.
	fmt.Println("after 445566:", b.WDLRow(1), b.PolicyRow(1), b.Source[1])
	// Output:
	// default answers; of a network: true
	// first move: better than even: true
	// after 445566: [1 0 0] [0 0 0.5 0 0 0 0.5] rules
}
