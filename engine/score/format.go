package score

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// kaggleFull is the score of a full column in Kaggle's format.
const kaggleFull = -99

// parse parses a non-empty line.
func (r *Reader) parse(text string) (p Position, err error) {
	if text[0] == '{' {
		p, err = r.parseJSON(text)
	} else {
		p, err = r.parseText(text)
	}
	if err != nil {
		return Position{}, err
	}
	// A single score on a board with several moves is the score of the position.
	alone := text[0] != '{' && len(p.Scores) == 1 && (p.State.Board.Actions() > 1 || r.unsolved)
	switch {
	case alone && !r.Unsolved:
		return Position{}, errors.New("has 1 score, that of the position, but the score of each move is needed: evald solve --scores finds it")
	case r.before == 0:
		r.unsolved = alone
	case r.unsolved && !alone:
		return Position{}, fmt.Errorf("has %d scores, but the lines before it have 1, that of the position: make a file of each kind", len(p.Scores))
	}
	r.before++
	if r.unsolved {
		p.Score, p.Scores = p.Scores[0], nil
		return p, p.validateScore()
	}
	return p, p.Validate()
}

// parseText parses `moves s1 s2 ..`.
func (r *Reader) parseText(text string) (p Position, err error) {
	words := strings.Fields(text)
	for i, word := range words[1:] {
		s, err := strconv.Atoi(word)
		if err != nil {
			return p, fmt.Errorf("score %d is %s, not a whole number", i+1, short.Quote(word))
		}
		p.Scores = append(p.Scores, s)
	}
	p.State, err = r.Parser.Parse(words[0])
	return p, err
}

// parseJSON parses both formats of JSON.
func (r *Reader) parseJSON(text string) (p Position, err error) {
	var line struct {
		Position string `json:"position"`
		Scores   []*int `json:"scores"`

		Board     []int  `json:"board"`
		Score     *int   `json:"score"`
		MoveScore []*int `json:"move score"`
	}
	if err := game.DecodeJSON([]byte(text), &line); err != nil {
		return p, err
	}
	switch {
	case line.Position == "" && line.Board != nil:
		return r.fromKaggle(line.Board, line.Score, line.MoveScore)
	case line.Scores == nil:
		return p, errors.New("json has no scores; evald solve writes them with --scores")
	}
	for _, s := range line.Scores {
		if s == nil {
			p.Scores = append(p.Scores, solver.NoMove)
		} else {
			p.Scores = append(p.Scores, *s)
		}
	}
	p.State, err = r.Parser.Parse(line.Position)
	return p, err
}

// fromKaggle returns a position in Kaggle's format.
func (r *Reader) fromKaggle(cells []int, score *int, moves []*int) (p Position, err error) {
	rules := game.Connect4
	switch want := rules.Columns * rules.Rows; {
	case len(cells) != want:
		return p, fmt.Errorf("board has %d cells, and in Kaggle's format it has %d, those of %v", len(cells), want, rules)
	case score == nil:
		return p, errors.New("json has a board without its score; evald solve --scores finds the scores of boards")
	case len(moves) != rules.Columns:
		return p, fmt.Errorf("move score has %d numbers, and must have %d, one for each column", len(moves), rules.Columns)
	}
	// The format omits the player to move: players take turns, and player 1 begins.
	stones := len(cells)
	for _, cell := range cells {
		if cell == 0 {
			stones--
		}
	}
	text, err := json.Marshal(struct {
		Board []int `json:"board"`
		Mark  int   `json:"mark"`
	}{cells, 1 + stones%2})
	if err != nil {
		return p, err
	}
	if p.State, err = r.Parser.Parse(string(text)); err != nil {
		return p, err
	}
	for a, move := range moves {
		if move == nil {
			return p, fmt.Errorf("move score %d is null, not a whole number", a+1)
		}
		s := *move
		switch playable := p.State.Board.CanPlay(p.State.Position, a); {
		case playable && s == kaggleFull:
			return p, fmt.Errorf("move score %d is %d, as of a full column, but column %d can be played", a+1, s, a+1)
		case !playable && s != kaggleFull:
			return p, fmt.Errorf("move score %d is %d, but column %d cannot be played: it must be %d", a+1, s, a+1, kaggleFull)
		case !playable:
			s = solver.NoMove
		}
		p.Scores = append(p.Scores, s)
	}
	if best := slices.Max(p.Scores); *score != best && best != solver.NoMove {
		return p, fmt.Errorf("score is %d, but the best move score is %d: one of them is wrong, and evald solve --scores finds which", *score, best)
	}
	return p, nil
}

// Validate returns an error if a legal move has no score, an illegal one has, a score is out of range,
// or the game is over.
func (p Position) Validate() error {
	b := p.State.Board
	if len(p.Scores) != b.Actions() {
		return fmt.Errorf("has %d scores, but %v has %d moves", len(p.Scores), b.Rules(), b.Actions())
	}
	if err := p.ongoing(); err != nil {
		return err
	}
	for a, s := range p.Scores {
		switch legal := b.CanPlay(p.State.Position, a); {
		case legal != (s != solver.NoMove):
			return fmt.Errorf("move %d has score %d, but can be played: %v", a+1, s, legal)
		case legal && (s > b.Cells() || s < -b.Cells()):
			return fmt.Errorf("move %d has score %d, out of range", a+1, s)
		}
	}
	return nil
}

// validateScore checks the score of a position without those of its moves.
func (p Position) validateScore() error {
	if cells := p.State.Board.Cells(); p.Score > cells || p.Score < -cells {
		return fmt.Errorf("score %d is out of range", p.Score)
	}
	return p.ongoing()
}

func (p Position) ongoing() error {
	if r := p.State.Board.Result(p.State.Position); r != game.Ongoing {
		return fmt.Errorf("the game is over (%v), there is no move to score", r)
	}
	return nil
}
