package agent_test

import (
	"context"
	"fmt"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/game"
)

// Users type agents, and code writes them down. Both are a Spec, which makes an agent for each game.
func Example() {
	typed, err := agent.Parse("uct-bitsquares:sims=500,power=2")
	if err != nil {
		fmt.Println(err)
		return
	}
	written := agent.Spec{Name: "mcts", Model: "bitsquares", Search: ask.Search{Visits: 100}}

	board := game.MustBoard(game.Connect4)
	position, _, err := board.ParseMoves("121212") // three in column 1, and it is that side's turn
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, spec := range []agent.Spec{typed, written} {
		a, err := agent.New(spec, agent.Shared{})
		if err != nil {
			fmt.Println(err)
			return
		}
		action, err := a.Move(context.Background(), board, position)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v plays column %d\n", spec, action+1)
	}
	// Output:
	// uct-bitsquares:sims=500,power=2 plays column 1
	// mcts:model=bitsquares,visits=100 plays column 1
}
