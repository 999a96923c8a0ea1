package selfplay_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/solver"
)

// Games of each selection, with and without exact ends and resignation, pass a store's check. Those that the rules disprove, that no
// search of the run could have, or that others played do not, and the error says why.
func TestCheck(t *testing.T) {
	for _, selection := range []string{"puct", "gumbel"} {
		for _, rules := range []string{"4x4x3", "5x4x4", "7x6x4", "3x3x3free"} {
			for exact := range 3 {
				c := config()
				c.Rules, c.Selection, c.Openings, c.Exact, c.Resign = rules, selection, selfplay.Mixed, solver.Nodes(20*(exact%2)), float64(exact/2)*0.5
				c.Policy = exact == 1
				s := gametest.Must(selfplay.OpenStore(t.TempDir(), c, 100))(t)
				gametest.OK(t, selfplay.Play(t.Context(), bitsquares(t), c, 0, 100, nil, s.Check))
				gametest.OK(t, s.Close())
			}
		}
	}
	c := config()
	c.Rules, c.Network, c.OpeningPlies, c.FullShare = "4x4x3", "bitsquares", 3, 1
	net := c
	net.Network, c.Policy = "001", true
	s, by := gametest.Must(selfplay.OpenStore(t.TempDir(), c, 100))(t), gametest.Must(selfplay.OpenStore(t.TempDir(), net, 100))(t)
	defer func() { gametest.OK(t, errors.Join(s.Close(), by.Close())) }()
	gametest.OK(t, selfplay.Play(t.Context(), bitsquares(t), c, 0, 100, nil, func(g *selfplay.Game) error {
		last := len(g.Plies) - 1
		if len(g.Plies) < 3 || g.Plies[0].Source != eval.Bitsquares || g.Plies[last].Source != eval.Rules {
			return nil
		}
		refused := func(s *selfplay.Store, ply int, want string, change func(*selfplay.Ply)) {
			t.Helper()
			wrong := *g
			wrong.Plies = slices.Clone(g.Plies)
			wrong.Plies[ply].Visits, wrong.Plies[ply].Policy = slices.Clone(g.Plies[ply].Visits), slices.Clone(g.Plies[ply].Policy)
			change(&wrong.Plies[ply])
			if err := s.Check(&wrong); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("game %d, position %d: error %v, want %q", g.Number, ply+1, err, want)
			}
		}
		from := func(source eval.Source) func(*selfplay.Ply) {
			return func(p *selfplay.Ply) { p.Source = source }
		}
		for _, source := range []eval.Source{"", eval.GPU, eval.CPU, eval.Cached, eval.Forced, eval.Searched, eval.Terminal, eval.OddEven} {
			refused(s, 0, `source is "`+string(source)+`", but bitsquares plays the games`, from(source))
		}
		for _, source := range []eval.Source{"", eval.Forced, eval.Searched, eval.Terminal} {
			refused(by, 0, `source is "`+string(source)+`", want a network's or a heuristic's`, from(source))
		}
		refused(s, 0, "the rules do not decide the position", func(p *selfplay.Ply) { p.Source, p.Q = eval.Rules, -1 })
		refused(s, 0, "visits of move 1 are 4294967295, want 30 at most", func(p *selfplay.Ply) { p.Visits[0] = math.MaxUint32 })
		refused(s, last, `source is "bitsquares", but the rules decide the position`, from(eval.Bitsquares))
		refused(s, last, "q is -0.5, but the rules", func(p *selfplay.Ply) { p.Q = -0.5 })
		refused(s, last, "but the rules decide the position: want [", func(p *selfplay.Ply) { p.Visits = nil })
		refused(s, 0, "policy is of 0 actions, want 4, as the visits", func(p *selfplay.Ply) { p.Policy = nil })
		refused(s, 0, "column policy is of 3 actions", func(p *selfplay.Ply) { p.Policy = p.Policy[:3] })
		refused(s, 0, "which sums to 1.5, must be 1", func(p *selfplay.Ply) { p.Policy = []float32{0.5, 0.5, 0.5, 0} })
		refused(s, last, ", as the visits", func(p *selfplay.Ply) {
			for a := range p.Policy {
				p.Policy[a] *= 0.9995
			}
		})
		refused(by, 0, "policy is there, but the run has none", func(*selfplay.Ply) {})
		late := *g
		late.Plies = g.Plies[last:]
		if err := s.Check(&late); err == nil || !strings.Contains(err.Error(), "stones, want an opening of 3 at most") {
			t.Errorf("game %d begins late: error %v", g.Number, err)
		}
		stood := *g // a network's generation in which a heuristic and networks answered
		stood.Plies = slices.Clone(g.Plies)
		for i := range stood.Plies {
			stood.Plies[i].Policy = nil
		}
		stood.Plies[0].Source = eval.GPU
		if err := by.Check(&stood); err != nil {
			t.Errorf("game %d by a network: %v", g.Number, err)
		}
		return nil
	}))
}
