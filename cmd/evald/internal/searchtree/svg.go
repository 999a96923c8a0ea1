package searchtree

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// Sizes in pixels.
const (
	boxWidth, boxHeight = 190, 20
	rowHeight           = 26
	apart               = 30 // gap between the columns of boxes
	margin              = 12
	above               = 64 // for the title
	letter              = 9  // the widest average of the title's letters
)

// SVG draws the tree from left to right with a box for each move. The principal line has dark boxes joined by thick lines.
func (t *Tree) SVG() []byte {
	d := drawing{}
	root := &Node{Moves: t.Moves, Left: t.Left}
	d.place(root, 0)
	title := fmt.Sprintf("Search tree of %s: %d visits, player %d to move, %s", t.Position, t.Visits, t.ToMove, verdict(t.Value, t.Proved))
	width := 2*margin + max(d.columns*(boxWidth+apart), min(len(title), 120)*letter)
	height := above + d.rows*rowHeight + margin
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc" font-family="Liberation Sans, Arial, Helvetica, sans-serif" font-size="12" fill="#1b1f27">`+"\n", width, height, width, height)
	how := fmt.Sprintf("Move, visits, prior, value. A value is for the player whose move it is: X moved first. At most %d moves deep, %d moves in all, each with %d visits or more, or proved; +3 stands for three moves left out. Expected: %s", t.Shown.Depth, t.Shown.Nodes, t.Shown.Visits, t.Line)
	element(&out, "title", `id="title"`, title)
	element(&out, "desc", `id="desc"`, how)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	element(&out, "text", fmt.Sprintf(`x="%d" y="22" font-size="15" font-weight="bold"`, margin), title)
	for i, line := range fold(how, max(60, (width-2*margin)/6), 2) {
		element(&out, "text", fmt.Sprintf(`x="%d" y="%d" font-size="11" fill="#596273"`, margin, 38+14*i), line)
	}
	out.Write(d.edges.Bytes())
	out.Write(d.boxes.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// drawing is the picture under construction.
type drawing struct {
	rows, columns int
	edges, boxes  bytes.Buffer
}

// place draws a node in a column and its moves to the right of it, and returns the y of the middle of the node's box. Each node without
// moves takes a row of its own.
func (d *drawing) place(n *Node, column int) (y float64) {
	d.columns = max(d.columns, column)
	if len(n.Moves) == 0 {
		d.rows++
		y = above + (float64(d.rows)-0.5)*rowHeight
	} else {
		var ys []float64
		for _, m := range n.Moves {
			ys = append(ys, d.place(m, column+1))
		}
		y = (ys[0] + ys[len(ys)-1]) / 2
		if n.Moves[0].Line { // the principal line is straight
			y = ys[0]
		}
		for i, m := range n.Moves {
			d.edge(column, y, ys[i], m.Line)
		}
	}
	if column > 0 {
		d.box(n, column, y)
	}
	return y
}

func left(column int) int { return margin + (column-1)*(boxWidth+apart) }

func (d *drawing) edge(column int, from, to float64, line bool) {
	if column == 0 {
		return // the root has no box
	}
	style := `stroke="#9aa3b2"`
	if line {
		style = `stroke="#1b1f27" stroke-width="3"`
	}
	x := left(column) + boxWidth
	fmt.Fprintf(&d.edges, `<path d="M%d %.1fC%d %.1f %d %.1f %d %.1f" fill="none" %s/>`+"\n", x, from, x+apart/2, from, x+apart/2, to, x+apart, to, style)
}

func (d *drawing) box(n *Node, column int, y float64) {
	x, fill, text := left(column), "#eef1f6", "#1b1f27"
	if n.Line {
		fill, text = "#1b1f27", "#fff"
	}
	fmt.Fprintf(&d.boxes, `<rect x="%d" y="%.1f" width="%d" height="%d" rx="4" fill="%s"/>`, x, y-boxHeight/2, boxWidth, boxHeight, fill)
	base := y + 4
	element(&d.boxes, "text", fmt.Sprintf(`x="%d" y="%.1f" font-weight="bold" fill="%s"`, x+6, base, text), "XO"[n.Player-1:n.Player]+" "+n.Move)
	end := func(at int, words string) {
		element(&d.boxes, "text", fmt.Sprintf(`x="%d" y="%.1f" text-anchor="end" fill="%s"`, x+at, base, text), words)
	}
	end(92, count(n.Visits))
	end(128, fmt.Sprintf("%.0f%%", 100*n.Prior))
	end(boxWidth-6, verdict(n.Value, n.Proved))
	d.boxes.WriteByte('\n')
	if n.Left > 0 {
		element(&d.boxes, "text", fmt.Sprintf(`x="%d" y="%.1f" font-size="9" fill="#596273"`, x+boxWidth+3, y+13), fmt.Sprintf("+%d", n.Left))
	}
}

// verdict returns a proved result, or a value in hundredths.
func verdict(value float64, proved string) string {
	if proved != "" {
		return proved
	}
	return fmt.Sprintf("%+d", int(math.Round(100*value)))
}

// count shortens large numbers: 831, 12k, 4M.
func count(n int) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 10_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// fold breaks a text between words into at most most lines of about width characters, and cuts the rest.
func fold(text string, width, most int) (lines []string) {
	for len(text) > width && len(lines) < most-1 {
		at := bytes.LastIndexByte([]byte(text[:width]), ' ')
		if at <= 0 {
			break
		}
		lines, text = append(lines, text[:at]), text[at+1:]
	}
	if len(text) > width {
		text = text[:width] + ".."
	}
	return append(lines, text)
}

func element(out *bytes.Buffer, name, attributes, text string) {
	fmt.Fprintf(out, "<%s %s>", name, attributes)
	_ = xml.EscapeText(out, []byte(text)) // writing to a buffer cannot fail
	fmt.Fprintf(out, "</%s>\n", name)
}
