package arena

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
)

// Game is a finished game: a line of a journal and a row of a Parquet file. First is the player who makes the game's first move, including
// the opening's moves.
type Game struct {
	Number  int32 `json:"game" parquet:"game"`       // number in the match, from 1
	Pair    int32 `json:"pair" parquet:"pair"`       // number of the pair of players, from 1
	Opening int32 `json:"opening" parquet:"opening"` // from 1

	First  string  `json:"first" parquet:"first,dict"`
	Second string  `json:"second" parquet:"second,dict"`
	Points float64 `json:"points" parquet:"points"` // of First: 1, 0.5 or 0
	Reason string  `json:"reason" parquet:"reason"` // "4 in a row", "draw" or "forfeit: " and the reason
	Plies  int32   `json:"plies" parquet:"plies"`   // of the whole game

	OpeningMoves string `json:"opening_moves" parquet:"opening_moves"` // as in Moves
	Moves        string `json:"moves" parquet:"moves"`                 // of the whole game, preceded by the rules unless they are 7x6x4

	// Wall-clock times. The time of a move is from the request to the answer.
	FirstSeconds  float64 `json:"first_seconds" parquet:"first_seconds"`   // of all moves
	SecondSeconds float64 `json:"second_seconds" parquet:"second_seconds"` //
	FirstLongest  float64 `json:"first_longest" parquet:"first_longest"`   // seconds of the longest move
	SecondLongest float64 `json:"second_longest" parquet:"second_longest"` //
	FirstMoves    int32   `json:"first_moves" parquet:"first_moves"`       // moves that the agent was asked for, so without those of the opening
	SecondMoves   int32   `json:"second_moves" parquet:"second_moves"`     //
	FirstLate     int32   `json:"first_late" parquet:"first_late"`         // moves that took longer than the player's limit
	SecondLate    int32   `json:"second_late" parquet:"second_late"`       //
}

const (
	drawReason    = "draw"
	forfeitReason = "forfeit: "
)

// forfeit reports whether the loser lost by an error or an illegal move.
func (g *Game) forfeit() bool { return strings.HasPrefix(g.Reason, forfeitReason) }

func (g *Game) points(player string) float64 {
	if g.First == player {
		return g.Points
	}
	return 1 - g.Points
}

// side is one player's side of a game.
type side struct {
	agent   agent.Agent
	limit   time.Duration
	sum     time.Duration
	longest time.Duration
	moves   int32
	late    int32
}

// move asks the agent for a move and measures its time. If the agent forfeits, reason says why. An error ends the match.
func (s *side) move(ctx context.Context, b *game.Board, p game.Position) (action int, reason string, err error) {
	start := time.Now()
	action, err = s.agent.Move(ctx, b, p)
	took := time.Since(start)
	if ctx.Err() != nil {
		return 0, "", ctx.Err()
	}
	s.moves++
	s.sum += took
	s.longest = max(s.longest, took)
	if s.limit > 0 && took > s.limit {
		s.late++
	}
	switch {
	case err != nil:
		return 0, forfeitReason + strings.ReplaceAll(err.Error(), "\n", " "), nil
	case !b.CanPlay(p, action):
		return 0, fmt.Sprintf("%splayed %d, which is no legal move", forfeitReason, action+1), nil
	}
	return action, "", nil
}

func (m *Match) play(ctx context.Context, n int) (Game, error) {
	at := m.pairing(n)
	players := [2]Player{m.Players[at.first], m.Players[at.second]}
	var sides [2]side
	for i, p := range players {
		a, err := p.New(m.seed(n, i))
		if err != nil {
			return Game{}, fmt.Errorf("player %s: %w", p.Name, err)
		}
		sides[i] = side{agent: a, limit: p.Limit}
	}
	g := Game{
		Number: int32(n), Pair: int32(at.pair + 1), Opening: int32(at.opening + 1),
		First: players[0].Name, Second: players[1].Name, OpeningMoves: m.opening(at.opening),
	}
	b, rules := m.Board, m.Board.Rules()
	moves := slices.Clone(m.Openings[at.opening])
	p := b.PlayMoves(moves)
	for g.Reason == "" {
		mover := len(moves) % 2
		action, reason, err := sides[mover].move(ctx, b, p)
		switch {
		case err != nil:
			return Game{}, err
		case reason != "":
			g.Reason, g.Points = reason, float64(mover)
			continue
		}
		moves = append(moves, action)
		p = b.Play(p, action)
		switch b.Result(p) {
		case game.Draw:
			g.Reason, g.Points = drawReason, 0.5
		case game.Loss:
			g.Reason, g.Points = fmt.Sprintf("%d in a row", rules.InARow), float64(1-mover)
		}
	}
	g.Plies, g.Moves = int32(len(moves)), game.FormatNotation(rules, moves)
	g.FirstSeconds, g.FirstLongest, g.FirstMoves, g.FirstLate = sides[0].sum.Seconds(), sides[0].longest.Seconds(), sides[0].moves, sides[0].late
	g.SecondSeconds, g.SecondLongest, g.SecondMoves, g.SecondLate = sides[1].sum.Seconds(), sides[1].longest.Seconds(), sides[1].moves, sides[1].late
	return g, nil
}

// opening returns opening i, counted from 0, as text.
func (m *Match) opening(i int) string { return game.FormatNotation(m.Board.Rules(), m.Openings[i]) }
