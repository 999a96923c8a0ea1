package stream

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// Table writes answers for people, and the throughput at the end.
type Table struct {
	w     io.Writer
	since time.Time
	begun bool
}

// NewTable writes to w; the throughput is measured from now.
func NewTable(w io.Writer) *Table { return &Table{w: w, since: time.Now()} }

// positionWidth is the number of characters of a position that the table shows.
const positionWidth = 28

// Encode writes the chunk's rows into c.Text.
func (t *Table) Encode(c *Chunk) { c.encode(appendRow) }

func appendRow(to []byte, a *Answer) []byte {
	if a.Err != nil {
		return fmt.Appendf(to, "%6d  %s\n", a.Number, strings.TrimPrefix(a.Err.Error(), fmt.Sprintf("line %d: ", a.Number)))
	}
	text := a.Text
	if len(text) > positionWidth {
		text = text[:positionWidth-2] + ".."
	}
	wdl := a.WDL()
	best := "-"
	if n := a.Best(); n > 0 {
		best = game.FormatMoves(a.State.Board.Rules(), []int{n - 1})
	}
	return fmt.Appendf(to, "%6d  %-*s  %7d  %5.1f %5.1f %5.1f  %+6.3f  %4s  %-10s %s\n",
		a.Number, positionWidth, text, a.State.Mark, 100*wdl[0], 100*wdl[1], 100*wdl[2], a.Value(), best, a.Source(), percents(a.Policy()))
}

// percents formats a policy in whole percents.
func percents(policy []float32) string {
	const most = 16
	var s strings.Builder
	for i, p := range policy {
		if i == most {
			s.WriteString(" ..")
			break
		}
		fmt.Fprintf(&s, "%4.0f", 100*p)
	}
	return s.String()
}

// Write writes the rows, with the column names before the first.
func (t *Table) Write(c *Chunk) error {
	if !t.begun {
		t.begun = true
		if _, err := fmt.Fprintf(t.w, "%6s  %-*s  %7s  %5s %5s %5s  %6s  %4s  %-10s %s\n", "line", positionWidth, "position",
			"to move", "win%", "draw%", "loss%", "value", "best", "source", " policy: % of each move"); err != nil {
			return err
		}
	}
	_, err := t.w.Write(c.Text)
	return err
}

// Close writes the number of answered lines by source, and the throughput.
func (t *Table) Close(s Summary) error {
	_, err := fmt.Fprintln(t.w, "\n"+s.Describe(time.Since(t.since)))
	return err
}

// Describe is a line for people: the number of positions, by source, and the throughput.
func (s Summary) Describe(took time.Duration) string {
	var by []string
	for _, source := range slices.SortedFunc(maps.Keys(s.Sources), eval.Source.Compare) {
		by = append(by, fmt.Sprintf("%s %d", source, s.Sources[source]))
	}
	answered := s.Lines - s.Bad
	text := fmt.Sprintf("%d positions in %v, %.0f positions/s", answered, took.Round(max(took/1000, 1)), float64(answered)/took.Seconds())
	if len(by) > 0 {
		text += " (" + strings.Join(by, ", ") + ")"
	}
	if s.Bad > 0 {
		text += fmt.Sprintf("; %d bad lines", s.Bad)
	}
	return text
}
