package game_test

import (
	"fmt"
	"log"

	"github.com/evald/evald/engine/game"
)

// A game is played on a Board of its Rules. Positions are values, and each move makes a new one.
func Example() {
	rules, err := game.ParseRules("7x6x4") // columns x rows x in a row
	if err != nil {
		log.Fatal(err)
	}
	board, err := game.NewBoard(rules)
	if err != nil {
		log.Fatal(err)
	}
	var p game.Position // the empty board
	for _, column := range []int{3, 3, 4, 4, 5, 5} {
		p = board.Play(p, column)
	}
	fmt.Println("player", p.Mover(), "is to move; stones:", p.Plies())
	for _, column := range []int{2, 6} {
		after := board.Play(p, column)
		fmt.Printf("column %d: %v for the other side\n", column, board.Result(after))
	}
	// Output:
	// player 1 is to move; stones: 6
	// column 2: loss for the other side
	// column 6: loss for the other side
}

// A Parser reads every notation. Without rules in front, moves are those of Connect Four.
func ExampleParser() {
	var parser game.Parser
	for _, text := range []string{"44554", "9x5x4:44", "3x3x3free:51", "448"} {
		state, err := parser.Parse(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%v: player %d is to move and has %d moves\n", state.Board.Rules(), state.Mark, state.Board.Legal(state.Position).OnesCount())
	}
	// Output:
	// 7x6x4: player 2 is to move and has 7 moves
	// 9x5x4: player 1 is to move and has 9 moves
	// 3x3x3free: player 1 is to move and has 7 moves
	// moves "448": move 3 is "8", not one of 1 to 7
}
