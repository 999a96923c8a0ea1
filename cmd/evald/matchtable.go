package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/evald/evald/engine/arena"
)

// matchReport is the standing of a match, as --json writes it.
type matchReport struct {
	Rules string `json:"rules"`
	Seed  uint64 `json:"seed"`
	arena.Table
	SPRT *sprtReport `json:"sprt,omitempty"`
}

type sprtReport struct {
	Elo0    float64       `json:"elo0"`
	Elo1    float64       `json:"elo1"`
	LLR     float64       `json:"llr"` // logarithm of the likelihood ratio
	Lower   float64       `json:"lower"`
	Upper   float64       `json:"upper"`
	Verdict arena.Verdict `json:"verdict"`
}

// mostName is the length in runes at which a player's name is cut, so that tables have at most 80
// columns.
const mostName = 18

// write writes the report as JSON, or as tables of at most 80 columns: the standings, then the
// score of each player against each other. names are what the user calls the players.
func (r *matchReport) write(w io.Writer, names map[string]string, asJSON bool) error {
	if asJSON {
		return writeJSON(w, r)
	}
	t := r.Table
	brief := func(player string) string {
		if name := []rune(names[player]); len(name) > mostName {
			return string(name[:mostName-1]) + "…"
		}
		return names[player]
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "\tplayer\tw/d/l\tscore %\tElo\t95%\ta move\tlongest\t")
	for _, p := range t.Standings {
		elo, interval := p.Rating()
		fmt.Fprintf(tab, "%d\t%s\t%d/%d/%d\t%.1f\t%s\t%s\t%v\t%v\t\n", p.Rank, brief(p.Player), p.Wins, p.Draws, p.Losses,
			100*p.Score, elo, interval, seconds(p.Seconds), seconds(p.Longest))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	if t.Games > 0 {
		fmt.Fprintf(w, "%d games of %.1f plies on average, %.1f%% drawn\n", t.Games, t.MeanPlies, 100*t.DrawShare)
	}
	fmt.Fprintln(w)
	for _, p := range t.Standings {
		if brief(p.Player) != p.Player {
			fmt.Fprintf(w, "%d: %s\n", p.Rank, foldAgent(p.Player))
		}
		if p.Forfeits > 0 {
			fmt.Fprintf(w, "%d forfeited %d games, the last: %s\n", p.Rank, p.Forfeits, p.Why)
		}
		if p.Late > 0 {
			fmt.Fprintf(w, "%d exceeded its own time in %d of %d moves\n", p.Rank, p.Late, p.Moves)
		}
	}
	if noted := slices.ContainsFunc(t.Standings, func(p arena.Standing) bool {
		return brief(p.Player) != p.Player || p.Forfeits > 0 || p.Late > 0
	}); noted {
		fmt.Fprintln(w)
	}
	if len(t.Standings) == 2 && len(t.Meetings) == 1 {
		m := t.Meetings[0]
		compared := fmt.Sprintf("%s is %+.0f ±%.0f Elo against %s,\nthe better one with probability %.1f%%", brief(m.A), math.Round(m.Elo)+0, m.EloError, brief(m.B), 100*m.Superior)
		if m.TooFew {
			compared = fmt.Sprintf("%s against %s:\ntoo few games to tell which is better, play more with --games", brief(m.A), brief(m.B))
		}
		_, err := fmt.Fprintf(w, "%s\npairs of games with 0, ½, 1, 1½, 2 points: %v\n", compared, m.Pairs)
		if s := r.SPRT; s != nil && err == nil {
			_, err = fmt.Fprintf(w, "SPRT of %g against %g Elo for the first agent: %s,\nLLR %.2f (%.2f, %.2f)\n", s.Elo0, s.Elo1, s.words(), s.LLR, s.Lower, s.Upper)
		}
		return err
	}
	return crossTable(w, t, brief)
}

// foldAgent breaks the text of an agent after commas into lines of at most 76 bytes, if it can.
func foldAgent(text string) string {
	var lines []string
	for _, part := range strings.SplitAfter(text, ",") {
		if n := len(lines); n > 0 && len(lines[n-1])+len(part) <= 76 {
			lines[n-1] += part
		} else {
			lines = append(lines, part)
		}
	}
	return strings.Join(lines, "\n   ")
}

func (s *sprtReport) words() string {
	switch s.Verdict {
	case arena.Accept0:
		return fmt.Sprintf("%g accepted", s.Elo0)
	case arena.Accept1:
		return fmt.Sprintf("%g accepted", s.Elo1)
	}
	return "undecided"
}

// crossTable writes the score of each row's player against each column's, in percent.
func crossTable(w io.Writer, t arena.Table, brief func(string) string) error {
	scores := map[[2]string]float64{}
	for _, m := range t.Meetings {
		scores[[2]string{m.A, m.B}], scores[[2]string{m.B, m.A}] = m.Score, 1-m.Score
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tab, "score % against\t")
	for _, p := range t.Standings {
		fmt.Fprintf(tab, "%d\t", p.Rank)
	}
	fmt.Fprintln(tab)
	for _, row := range t.Standings {
		fmt.Fprintf(tab, "%s %d\t", brief(row.Player), row.Rank)
		for _, column := range t.Standings {
			text := "."
			if score, met := scores[[2]string{row.Player, column.Player}]; met {
				text = fmt.Sprintf("%.1f", 100*score)
			}
			fmt.Fprintf(tab, "%s\t", text)
		}
		fmt.Fprintln(tab)
	}
	return tab.Flush()
}

// seconds converts a time, rounded to about three digits.
func seconds(s float64) time.Duration {
	d := time.Duration(s * float64(time.Second))
	for unit := time.Second; unit > time.Nanosecond; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}
