package selfplay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
)

// Check returns an error if a game cannot belong to this run. It checks each position, move, visit count, value and source, and whether
// they agree with the rules where these decide. It does not search again, so it accepts every value and policy that a search could produce.
func (s *Store) Check(g *Game) error {
	if err := s.check(g); err != nil {
		return fmt.Errorf("game %d: %w", g.Number, err)
	}
	return nil
}

func (s *Store) check(g *Game) error {
	if g.Number < 0 || g.Number >= s.end {
		return fmt.Errorf("the run has games 0 to %d", s.end-1)
	}
	if len(g.Plies) == 0 || len(g.Plies) > s.board.Cells() || g.Result < -1 || g.Result > 1 {
		return fmt.Errorf("%d positions and result %d cannot be", len(g.Plies), g.Result)
	}
	for i := range len(g.Plies) + 1 {
		p := g.Last
		if i < len(g.Plies) {
			p = g.Plies[i].Position
		}
		if err := s.board.Check(p, game.InTurn); err != nil {
			return fmt.Errorf("position %d: %w", i+1, err)
		}
		if i == 0 {
			continue
		}
		before := g.Plies[i-1].Position
		move := p.All.AndNot(before.All)
		ended := i == len(g.Plies) && p == before && (s.config.Resign > 0 && g.Result != 0 || s.config.Exact > 0 && g.Proved())
		if !ended && (move.OnesCount() != 1 || p != s.board.Play(before, s.board.Action(move.First()))) {
			return fmt.Errorf("position %d does not follow from the one before", i+1)
		}
	}
	last := g.Plies[len(g.Plies)-1].Position
	if result := s.board.Result(g.Last); g.Last != last && (result == game.Ongoing || outcome(int8(result.Value()), g.Last) != g.Result) {
		return fmt.Errorf("result %d, but the last position is %v for the side to move", g.Result, result)
	}
	first := g.Plies[0].Position
	if n := first.Plies(); n > s.config.OpeningPlies {
		return fmt.Errorf("position 1 has %d stones, want an opening of %d at most", n, s.config.OpeningPlies)
	}
	if !first.All.IsZero() && !s.board.Wins(first).IsZero() {
		return errors.New("position 1 is not an opening, because a move wins at once")
	}
	for i, r := range s.records(g) {
		if r.Source == eval.Solved && (s.config.Exact == 0 || g.Last != r.Position || r.Q != float32(r.Z)) {
			return fmt.Errorf("result %d, but %d stones are said to be proved with value %v for the side to move", g.Result, r.Ply, r.Q)
		}
		if err := r.Check(&s.checked); err != nil {
			return err
		}
		if i < len(g.Plies) {
			if err := cmp.Or(s.checkSource(&g.Plies[i]), s.checkPolicy(&g.Plies[i])); err != nil {
				return fmt.Errorf("position %d: %w", i+1, err)
			}
		}
	}
	return nil
}

// checkSource checks the source of a position whose game is not over. If the rules decide the position, it must have source Rules, and the
// value and moves of the rules. Otherwise it must be proved, or have the visits of one search and the source of the run's heuristic, of its
// network, or of a heuristic that replaced the network.
func (s *Store) checkSource(p *Ply) error {
	o := s.board.Outlook(p.Position)
	if o.Result != game.Ongoing {
		want := each(s.board, o.Moves)
		switch {
		case p.Source != eval.Rules:
			return fmt.Errorf("source is %q, but the rules decide the position: want %q", p.Source, eval.Rules)
		case p.Q != o.Result.Value():
			return fmt.Errorf("q is %v, but the rules decide the position: want %v", p.Q, o.Result.Value())
		case !slices.Equal(p.Visits, want):
			return fmt.Errorf("visits are %v, but the rules decide the position: want %v", p.Visits, want)
		}
		return nil
	}
	most := uint32(s.config.Visits)
	if p.Source == eval.Solved {
		most = 1
	}
	for a, n := range p.Visits {
		if n > most {
			return fmt.Errorf("visits of move %d are %d, want %d at most", a+1, n, most)
		}
	}
	own, heuristics, _ := heuristic.Parse(s.config.Network)
	_, other := heuristic.Named(string(p.Source))
	switch {
	case p.Source == eval.Rules:
		return fmt.Errorf("source is %q, but the rules do not decide the position", p.Source)
	case p.Source == eval.Solved: // checked already: the record was compared with the result
		return nil
	case heuristics && p.Source != own.Source:
		return fmt.Errorf("source is %q, but %s plays the games", short.Text(string(p.Source)), s.config.Network)
	case !heuristics && !other && !p.Source.Network():
		return fmt.Errorf("source is %q, want a network's or a heuristic's", short.Text(string(p.Source)))
	}
	return nil
}

// checkPolicy checks whether the run's positions have a policy. Where the rules or a proof decide, it must be that of the visits. Check has
// checked its values.
func (s *Store) checkPolicy(p *Ply) error {
	switch want := shares(p.Visits); {
	case !s.config.Policy && p.Policy != nil:
		return errors.New("policy is there, but the run has none")
	case s.config.Policy && len(p.Policy) != len(p.Visits):
		return fmt.Errorf("policy is of %d actions, want %d, as the visits", len(p.Policy), len(p.Visits))
	case s.config.Policy && (p.Source == eval.Rules || p.Source == eval.Solved) && !slices.Equal(p.Policy, want):
		return fmt.Errorf("policy is %v, want %v, as the visits", p.Policy, want)
	}
	return nil
}
