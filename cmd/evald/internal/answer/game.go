package answer

import (
	"context"
	"fmt"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/engine/game"
)

// gameRequest asks for a game's state, after a command if Do names one.
type gameRequest struct {
	Position string  `json:"position"` // rules and moves: the moves made, then those taken back
	Made     *int    `json:"made"`     // number of moves made; missing: all of Position
	Human    [2]bool `json:"human"`    // whether a person plays each side
	Do       string  `json:"do"`       // play, undo, redo, new, open (a link, which may have an illegal move), or empty: play if there is a move
	Move     string  `json:"move"`     // name of the move, for play
}

// GameState is the state that the page shows. Side 0 moved first, side 1 second. Cells are numbered row by row from the top left.
type GameState struct {
	Position string   `json:"position"` // with the rules and the moves made
	Line     string   `json:"line"`     // the same, followed by the moves taken back
	Made     int      `json:"made"`
	Moves    []string `json:"moves"` // names of the moves of Line
	Rules    string   `json:"rules"`
	Rows     int      `json:"rows"`
	Columns  int      `json:"columns"`
	Gravity  bool     `json:"gravity"`
	Cells    []int    `json:"cells"` // 0 empty, 1 stone of side 0, 2 stone of side 1
	Names    []string `json:"names"` // of the moves, by action
	Legal    []bool   `json:"legal"` // by action
	Last     int      `json:"last"`  // cell of the last stone, or -1
	Played   string   `json:"played"`
	Winning  []int    `json:"winning"` // cells
	Side     int      `json:"side"`    // side to move
	Result   string   `json:"result"`  // won (by the side that is not to move), draw, or empty
	Undo     bool     `json:"undo"`    // whether a move can be taken back
	Redo     bool     `json:"redo"`
	Dropped  string   `json:"dropped"` // error of a link with an illegal move, and how many moves are kept; else empty
}

func (*Answerer) game(_ context.Context, q *gameRequest) (any, error) {
	s, dropped, err := q.session()
	if err != nil {
		return nil, err
	}
	state := describe(s, q.Human)
	state.Dropped = dropped
	return state, nil
}

// session returns the game after the request's command, and a message about moves that were dropped from a link.
func (q *gameRequest) session() (s *play.Session, dropped string, err error) {
	b, line, wrong, err := parseLink(q.Position)
	switch {
	case err != nil:
		return nil, "", err
	case wrong != nil && q.Do != "open":
		return nil, "", bad("position", "%v", wrong)
	case wrong != nil:
		dropped = fmt.Sprintf("%v; %s", wrong, kept(len(line)))
	}
	made := len(line)
	if q.Made != nil {
		if made = *q.Made; made < 0 || made > len(line) {
			return nil, "", bad("made", "made is %d, must be 0 to %d, the number of moves", made, len(line))
		}
	}
	s = play.Resume(b, line, made, q.Human)
	if q.Do == "" && q.Move != "" {
		q.Do = "play"
	}
	switch q.Do {
	case "", "open":
	case "new":
		s.Restart()
	case "undo":
		s.Undo()
	case "redo":
		s.Redo()
	case "play":
		a := play.Action(b, q.Move)
		if a < 0 {
			return nil, "", bad("move", "%q is no move of %v", cut(q.Move), b.Rules())
		}
		if err := s.Play(a); err != nil {
			return nil, "", bad("move", "%v", err)
		}
	default:
		return nil, "", bad("do", "do is %q, want play, undo, redo, new, open or nothing", cut(q.Do))
	}
	return s, dropped, nil
}

// kept says how many moves of a link with an illegal move are kept.
func kept(moves int) string {
	switch moves {
	case 0:
		return "no move is kept"
	case 1:
		return "the move before it is kept"
	}
	return fmt.Sprintf("the %d moves before it are kept", moves)
}

// names returns the names of all moves, by action.
func names(b *game.Board) (all []string) {
	for a := range b.Actions() {
		all = append(all, play.Name(b, a))
	}
	return all
}

func describe(s *play.Session, human [2]bool) GameState {
	b, p := s.Board(), s.Position()
	rules := b.Rules()
	state := GameState{
		Position: Canonical(b, s.Moves()),
		Line:     Canonical(b, s.Line()), Made: len(s.Moves()),
		Rules: rules.String(), Rows: b.Rows(), Columns: b.Columns(), Gravity: rules.Gravity,
		Cells: game.State{Board: b, Position: p, Mark: p.Mover()}.Kaggle(),
		Last:  -1, Winning: []int{}, Side: s.Side(), Moves: []string{}, Names: names(b),
	}
	for _, a := range s.Line() {
		state.Moves = append(state.Moves, play.Name(b, a))
	}
	for a := range b.Actions() {
		state.Legal = append(state.Legal, s.Result() == game.Ongoing && b.CanPlay(p, a))
	}
	last, won := s.LastCell(), s.Winning()
	for i := range b.Cells() {
		at := b.FlatIndex(i)
		if won.Has(at) {
			state.Winning = append(state.Winning, i)
		}
		if at == last {
			state.Last = i
		}
	}
	if n := len(s.Moves()); n > 0 {
		state.Played = play.Name(b, s.Moves()[n-1])
	}
	switch s.Result() {
	case game.Loss:
		state.Result = "won"
	case game.Draw:
		state.Result = "draw"
	}
	again := func() *play.Session { return play.Resume(b, s.Line(), len(s.Moves()), human) }
	state.Undo, state.Redo = again().Undo(), again().Redo()
	return state
}
