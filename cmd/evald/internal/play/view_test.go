package play

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

// view returns a model on a screen of the given size, with a made-up report and made-up scores.
func view(t *testing.T, position string, width, height int) *model {
	t.Helper()
	m := newModel(t.Context(), config(t, position, nil))
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.evaluate = true
	n := m.config.Board.Actions()
	m.report = &Report{Moves: make([]mcts.Move, n), Visits: 12_345, Value: 0.31, Best: n / 2, Line: []int{n / 2, 0, n - 1}}
	for a := range n {
		if m.config.Board.CanPlay(m.session.Position(), a) {
			m.report.Moves[a] = mcts.Move{Action: a, Visits: 100 * (a + 1), Q: float64(2*a-n) / float64(n)}
		}
	}
	m.report.Moves[0].Result, m.report.Moves[1].Result, m.report.Moves[2].Result = game.Loss, game.Draw, game.Win
	m.report.Moves[n-1].Visits = 0
	return m
}

func (m *model) withScores(finished bool) *model {
	m.solving = &task{}
	n := m.config.Board.Actions()
	m.exact = &Exact{Scores: make([]int, n), Solved: 3, Legal: n, Action: 3, Finished: finished}
	m.exact.Progress = solver.Progress{Lower: -3, Upper: 18, Nodes: 12_345_678}
	for a := range n {
		m.exact.Scores[a] = a - 1
		if a > 2 && !finished {
			m.exact.Scores[a] = solver.NoMove
		}
	}
	return m
}

func TestView(t *testing.T) {
	hint := func(m *model) *model { m.hint = true; return m }
	for name, m := range map[string]*model{
		"standard":      view(t, "44554", 80, 24),
		"hint_solving":  hint(view(t, "44554", 80, 24).withScores(false)),
		"solved_narrow": view(t, "44554", 30, 24).withScores(true),
		"low":           view(t, "44554", 80, 9).withScores(true),
		"tiny":          view(t, "44554", 10, 8),
		"too_small":     view(t, "44554", 9, 8),
		"too_low":       view(t, "44554", 80, 7),
		"won":           view(t, "4151617", 80, 24),
		"wide":          view(t, "20x5x4:abacad", 80, 24),
		"wider":         view(t, "30x3x4:abacad", 80, 24).withScores(true),
		"widest":        view(t, "63x1x3:30.31", 80, 24),
		"free":          hint(view(t, "3x3x3free:519", 80, 24)),
		"free_solved":   view(t, "5x5x4free:d", 80, 24).withScores(true),
		"free_solving":  view(t, "3x3x3free:519", 80, 24).withScores(false),
		"free_narrow":   view(t, "9x9x5free:41.42", 24, 14),
	} {
		t.Run(name, func(t *testing.T) { golden(t, name+".txt", m.View().Content) })
	}
	help := view(t, "-", 80, 24)
	help.help = true
	golden(t, "help.txt", help.View().Content)
	// Colours are used, but the text says everything that they say.
	s := view(t, "445", 80, 24).View().Content
	if !strings.Contains(s, "\x1b[1;97;41m") || !strings.Contains(s, "\x1b[1;30;43m") {
		t.Errorf("no red and yellow stones in %q", s)
	}
}
