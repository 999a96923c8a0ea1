package main

import (
	"fmt"
	"io"
	"math"
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

// write writes the report as JSON, or as tables: the standings, then the score of each player against each other.
func (r *matchReport) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, r)
	}
	t := r.Table
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "\tplayer\tgames\twins\tdraws\tlosses\tscore %\tElo\t95%\ta move\tlongest\tlate\tforfeits\t")
	for _, p := range t.Standings {
		elo, interval := p.Rating()
		fmt.Fprintf(tab, "%d\t%s\t%d\t%d\t%d\t%d\t%.1f\t%s\t%s\t%v\t%v\t%d\t%d\t\n", p.Rank, p.Player, p.Games, p.Wins, p.Draws, p.Losses,
			100*p.Score, elo, interval, seconds(p.Seconds), seconds(p.Longest), p.Late, p.Forfeits)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, p := range t.Standings {
		if p.Forfeits > 0 {
			fmt.Fprintf(w, "%s forfeited %d games, the last: %s\n", p.Player, p.Forfeits, p.Why)
		}
	}
	if len(t.Standings) == 2 && len(t.Meetings) == 1 {
		m := t.Meetings[0]
		compared := fmt.Sprintf("%s is %+.0f ±%.0f Elo against %s, the better one with probability %.1f%%", m.A, math.Round(m.Elo)+0, m.EloError, m.B, 100*m.Superior)
		if m.TooFew {
			compared = fmt.Sprintf("%s against %s: too few games to tell which is better, play more with --games", m.A, m.B)
		}
		_, err := fmt.Fprintf(w, "\n%s; pairs of games with 0, ½, 1, 1½, 2 points: %v\n", compared, m.Pairs)
		if s := r.SPRT; s != nil && err == nil {
			_, err = fmt.Fprintf(w, "SPRT of %g against %g Elo for the first agent: %s, LLR %.2f (%.2f, %.2f)\n", s.Elo0, s.Elo1, s.words(), s.LLR, s.Lower, s.Upper)
		}
		return err
	}
	return crossTable(w, t)
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
func crossTable(w io.Writer, t arena.Table) error {
	scores := map[[2]string]float64{}
	for _, m := range t.Meetings {
		scores[[2]string{m.A, m.B}], scores[[2]string{m.B, m.A}] = m.Score, 1-m.Score
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tab, "\nscore % against\t")
	for _, p := range t.Standings {
		fmt.Fprintf(tab, "%d\t", p.Rank)
	}
	fmt.Fprintln(tab)
	for _, row := range t.Standings {
		fmt.Fprintf(tab, "%s %d\t", row.Player, row.Rank)
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
