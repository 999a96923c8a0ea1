package learn

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/nn/train/tensorboard"
)

func (r *Run) writeLines() error {
	var text bytes.Buffer
	encode := json.NewEncoder(&text)
	for _, g := range r.generations {
		if err := encode.Encode(g); err != nil {
			return err
		}
	}
	return durable.WriteFile(r.path("generations.jsonl"), text.Bytes())
}

// openCurves begins a TensorBoard file with the points of all complete generations, which replaces
// earlier files.
func (r *Run) openCurves() (*tensorboard.Writer, error) {
	var points []tensorboard.Point
	for _, g := range r.generations {
		points = append(points, tensorboard.Point{Step: g.Number, Values: curves(g)})
	}
	return tensorboard.Open(r.path(), points)
}

// curves returns the points that a generation adds to the TensorBoard curves.
func curves(g Generation) []tensorboard.Scalar {
	promoted := float32(0)
	if g.Promoted {
		promoted = 1
	}
	curves := []tensorboard.Scalar{
		{Tag: "match/elo", Value: float32(g.Elo)},
		{Tag: "match/promoted", Value: promoted},
	}
	if g.Proved > 0 {
		curves = append(curves, tensorboard.Scalar{Tag: "selfplay/proved", Value: float32(g.Proved) / float32(g.Games)})
	}
	for _, a := range g.Accuracy {
		by := a.Player()
		if a.Visits == 0 {
			by = "0 visits"
		}
		on := cmp.Or(a.Rules, a.Kind) + ", " + by
		curves = append(curves,
			tensorboard.Scalar{Tag: "exact/good, " + on, Value: float32(a.Good.Value)},
			tensorboard.Scalar{Tag: "exact/perfect, " + on, Value: float32(a.Perfect.Value)},
			tensorboard.Scalar{Tag: "exact/result foretold, " + on, Value: float32(a.ValueSign.Value)})
	}
	if g.Metrics != nil {
		for _, c := range g.Metrics.Curves() {
			if c.Metric != nil {
				curves = append(curves, tensorboard.Scalar{Tag: "loss/" + c.Name, Value: float32(c.Loss)})
			}
		}
	}
	return curves
}
