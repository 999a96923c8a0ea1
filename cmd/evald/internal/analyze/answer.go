package analyze

import (
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// Answer is the result of a search, as JSON. Arrays are by action; wdl, value and q are for the side to move.
type Answer struct {
	Position string    `json:"position"`
	ToMove   int       `json:"to_move"`
	Visits   []int     `json:"visits"`
	Q        []float64 `json:"q"` // mean value of each move, -1..1; 0 without visits
	Policy   []float32 `json:"policy"`
	WDL      []float32 `json:"wdl"`
	Value    float64   `json:"value"`
	Best     *int      `json:"best"`   // from 1; null if the game is over
	PV       string    `json:"pv"`     // principal variation, in the notation of moves
	Proved   *string   `json:"proved"` // win, draw or loss if the search proved it
	Source   string    `json:"source"`
	Model    string    `json:"model"`
	Plain    bool      `json:"plain,omitempty"` // the search had no lookahead
}

// Describe returns the answer for a state and its tree, which is nil if the game is over. text is the position in the answer and model the
// evaluator's name.
func Describe(text, model string, state game.State, t *mcts.Tree) Answer {
	n := state.Board.Actions()
	a := Answer{
		Position: text, ToMove: state.Mark, Model: model,
		Visits: make([]int, n), Q: make([]float64, n), Policy: make([]float32, n), WDL: make([]float32, 3),
	}
	if t == nil {
		b := eval.NewBatch(state.Board, 1)
		b.Pos[0] = state.Position
		b.AnswerTerminal(0)
		a.WDL, a.Value, a.Source = b.WDL, float64(b.Value(0)), b.Source[0].String()
		return a
	}
	for _, m := range t.Moves(nil) {
		a.Visits[m.Action], a.Q[m.Action] = m.Visits, m.Q
	}
	t.Policy(a.Policy, 1)
	t.WDL(a.WDL)
	a.Value, a.Source, a.Plain = t.Value(), eval.Searched.String(), t.Plain()
	best := t.Best() + 1
	a.Best = &best
	a.PV = game.FormatMoves(state.Board.Rules(), t.Line(nil))
	if proved := t.Result(); proved != game.Ongoing {
		text := proved.String()
		a.Proved = &text
	}
	return a
}

// reply is a line of output.
type reply struct {
	ID     string `json:"id,omitempty"`
	Line   int    `json:"line,omitempty"` // of a line that has no id
	Error  string `json:"error,omitempty"`
	Warned string `json:"warning,omitempty"`
	Field  string `json:"field,omitempty"` // the query's field that the error or the warning is about

	// Fields of an action's reply.
	Action      string `json:"action,omitempty"`
	TerminateID string `json:"terminate_id,omitempty"`
	Terminated  *int   `json:"terminated,omitempty"` // number of searches that the action ends

	// Fields of a search's reply. Answer is nil if the search ended before its first visit.
	Ended   string  `json:"ended,omitempty"` // why it ended; empty in a report of a running search
	Seconds float64 `json:"seconds,omitempty"`
	*Answer
}

// Reasons for the end of a search.
const (
	byVisits    = "visits"
	bySeconds   = "seconds"
	byProof     = "proved"
	byGameOver  = "game over"
	byTerminate = "terminated"
)
