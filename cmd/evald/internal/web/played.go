package web

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// Games counts how often each move was played in recorded games, and how these games ended. A position and its mirror image count as one.
type Games struct {
	counts map[playedMove][3]uint32 // games that the side to move won, drew and lost
	boards game.Boards
	games  int64
	full   bool
}

// playedMove is a move in a position. Of the position and its mirror image it has the canonical one, and the move in that one.
type playedMove struct {
	rules game.Rules
	at    game.Position
	move  uint8
}

const (
	maxPlayed      = 1 << 20 // maximum number of distinct moves that are counted, some 100 bytes each
	maxPlayedPlies = 20      // moves are counted in positions with at most this number of stones
)

// ReadGames reads Parquet files with games of matches (evald match -o) or records of self-play. The error names the file and, for records,
// the row and column.
func ReadGames(ctx context.Context, paths ...string) (*Games, error) {
	g := &Games{counts: map[playedMove][3]uint32{}}
	for _, path := range paths {
		match, err := arena.ReadGames(path)
		switch {
		case errors.Is(err, arena.ErrNoMatch):
			err = g.readRecords(ctx, path)
		case err == nil:
			err = g.addMatch(path, match)
		}
		if err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *Games) addMatch(path string, match []arena.Game) error {
	for i := range match {
		if err := g.addGame(&match[i]); err != nil {
			return fmt.Errorf("%s: game %d: %w", path, match[i].Number, err)
		}
	}
	return nil
}

func (g *Games) addGame(played *arena.Game) error {
	rules, moves, err := game.CutRules(played.Moves)
	if err != nil {
		return err
	}
	b, err := g.boards.Get(rules)
	if err != nil {
		return err
	}
	_, actions, err := b.ParseMoves(moves)
	if err != nil {
		return err
	}
	g.games++
	z := int(2*played.Points) - 1 // for the side to move
	var p game.Position
	for _, a := range actions[:min(len(actions), maxPlayedPlies+1)] {
		g.count(b, p, a, z)
		p, z = b.Play(p, a), -z
	}
	return nil
}

func (g *Games) readRecords(ctx context.Context, path string) (err error) {
	r, err := record.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var rec, before record.Record
	for row := int64(0); ; row++ {
		if row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch err := r.Next(&rec); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if !rec.Continues(&before) {
			g.games++
		}
		before = rec
		if err := g.add(&rec); err != nil {
			return fmt.Errorf("%s: %w", r.Where(), err)
		}
	}
}

// add counts a record's move, unless it is unknown or after ply maxPlayedPlies.
func (g *Games) add(rec *record.Record) error {
	b, err := g.boards.Get(rec.Rules)
	if err != nil {
		return err
	}
	action := int(rec.Move) - 1
	if rec.Ply > maxPlayedPlies || action < 0 {
		return nil
	}
	if action >= b.Actions() || !b.CanPlay(rec.Position, action) {
		return fmt.Errorf("move: %d cannot be played there", rec.Move)
	}
	g.count(b, rec.Position, action, int(rec.Z))
	return nil
}

// count counts a move in a game that the side to move won (z is 1), drew (0) or lost (-1).
func (g *Games) count(b *game.Board, p game.Position, action, z int) {
	key := keyOf(b, p, action)
	counts, known := g.counts[key]
	if !known && len(g.counts) >= maxPlayed {
		g.full = true
		return
	}
	counts[1-z]++
	g.counts[key] = counts
}

func keyOf(b *game.Board, p game.Position, action int) playedMove {
	q, mirrored := b.Canonical(p)
	if other := b.MirrorAction(action); mirrored || b.Mirror(p) == p && other < action {
		action = other
	}
	return playedMove{b.Rules(), q, uint8(action)}
}

// Summary describes the number of games and moves read, for the log.
func (g *Games) Summary() string {
	if g.full {
		return fmt.Sprintf("%d games, of which the first %d moves are counted", g.games, maxPlayed)
	}
	return fmt.Sprintf("%d games, %d different moves", g.games, len(g.counts))
}

// moves returns the counts of each move of a position, by action.
func (g *Games) moves(b *game.Board, p game.Position) []answer.Played {
	counts := make([]answer.Played, b.Actions())
	for a := range counts {
		c := g.counts[keyOf(b, p, a)]
		counts[a] = answer.Played{Games: uint64(c[0]) + uint64(c[1]) + uint64(c[2]), Wins: c[0], Draws: c[1], Losses: c[2]}
	}
	return counts
}
