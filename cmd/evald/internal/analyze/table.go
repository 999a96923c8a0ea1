package analyze

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/evald/evald/cmd/evald/internal/stream"
)

// Columns returns the columns of a table of answers. The caller supplies the first column and the one for how a search ended.
func Columns(first, how stream.Column) stream.Columns {
	return stream.Columns{
		first,
		{Name: "position", Width: -15},
		{Name: "to move", Width: 7},
		{Name: "win%", Width: 5},
		{Name: "draw%", Width: 5},
		{Name: "loss%", Width: 5},
		how,
		{Name: "best line", Width: -14},
	}
}

// Cells returns the answer's row of a table with these columns.
func (a *Answer) Cells(first, how string) []string {
	return []string{
		first, a.Position, strconv.Itoa(a.ToMove), stream.Percent(a.WDL[0]), stream.Percent(a.WDL[1]), stream.Percent(a.WDL[2]), how, a.PV,
	}
}

var columns = Columns(stream.Column{Name: "id", Width: -8}, stream.Column{Name: "ended", Width: -10})

// row formats the reply as a row of a table.
func (r *reply) row() []byte {
	first := r.ID
	if first == "" {
		first = fmt.Sprint("line ", r.Line)
	}
	if r.Answer != nil {
		return columns.Append(nil, r.Cells(first, cmp.Or(r.Ended, "not yet"))...)
	}
	text := r.Error + r.Warned
	switch {
	case r.Warned != "":
		text = r.Field + ": " + text
	case r.Terminated != nil:
		text = strings.TrimSpace(r.Action + " " + r.TerminateID)
		text += fmt.Sprintf(": searches that it ends: %d", *r.Terminated)
	case text == "":
		text = r.Ended
	}
	return columns.Note(nil, first, text)
}
