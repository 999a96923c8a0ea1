package solver_test

import (
	"context"
	"fmt"
	"log"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// The exact score of a position, and those of its moves: more than 0 wins, and a higher score wins earlier.
func ExampleSolver() {
	rules, err := game.ParseRules("5x4x4")
	if err != nil {
		log.Fatal(err)
	}
	board := game.MustBoard(rules)
	position, _, err := board.ParseMoves("3344") // two in a row, and column 2 makes three with both ends open
	if err != nil {
		log.Fatal(err)
	}
	s, err := solver.New(board, solver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	scores, result, err := s.Scores(context.Background(), position)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("score", result.Score, "by column", result.Best+1)
	fmt.Println("of each move:", scores)
	// Output:
	// score 7 by column 2
	// of each move: [-1 7 -1 -1 -1]
}
