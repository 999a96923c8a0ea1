package train

import (
	"maps"
	"slices"
	"time"

	"github.com/evald/evald/nn/train/tensorboard"
)

// Metrics is a line of a run's metrics. Its values are means over the steps since the previous line, or since the run was started or
// resumed. Losses are in nats.
type Metrics struct {
	Step int     `json:"step"` // the last step
	Rate float64 `json:"lr"`   // of the last step
	Norm float64 `json:"gradient_norm"`
	Loss float64 `json:"loss"` // weighted sum of the losses
	Heads
	HeldOut   *Heads  `json:"held_out,omitempty"` // losses of the network, as it would be saved after the last step, on Folder.HeldOut; only in some lines
	PerSecond float64 `json:"positions_per_second"`

	Games map[string]Heads `json:"games,omitempty"` // HeldOut by game, if the run has several
}

// Heads are the losses by head. Losses that the run does not train are nil.
type Heads struct {
	WDL      *Metric `json:"wdl,omitempty"`
	Policy   *Metric `json:"policy,omitempty"`
	GameOver *Metric `json:"gameover,omitempty"`
}

// Metric is one of the losses.
type Metric struct {
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"accuracy"` // share of rows in which network and target have the same most likely class
}

// means are sums over some steps, from which metrics computes means.
type means struct {
	since      time.Time
	steps      int
	norm, loss float64
	losses     Losses
}

func (m *means) add(r Report) {
	if m.steps == 0 {
		m.since = r.Began
	}
	m.steps++
	m.norm += r.Norm
	m.loss += r.Total
	m.losses.add(&r.Losses)
}

// metrics returns a line with the means over the steps; r is the last step.
func (m *means) metrics(r Report, batch int) Metrics {
	n := float64(m.steps)
	return Metrics{
		Step: r.Step, Rate: r.Rate, Norm: m.norm / n, Loss: m.loss / n,
		Heads: m.losses.Heads(), PerSecond: n * float64(batch) / time.Since(m.since).Seconds(),
	}
}

// Heads returns the losses as metrics.
func (l *Losses) Heads() Heads { return Heads{l.WDL.metric(), l.Policy.metric(), l.GameOver.metric()} }

func (t *Term) metric() *Metric {
	if t == nil {
		return nil
	}
	return &Metric{t.Loss, t.Accuracy()}
}

// scalars returns the points that a line adds to the TensorBoard curves.
func (m Metrics) scalars() []tensorboard.Scalar {
	curves := []tensorboard.Scalar{
		{Tag: "loss/total", Value: float32(m.Loss)},
		{Tag: "run/lr", Value: float32(m.Rate)},
		{Tag: "run/gradient norm", Value: float32(m.Norm)},
		{Tag: "run/positions per second", Value: float32(m.PerSecond)},
	}
	curves = append(curves, m.Heads.scalars("")...)
	if m.HeldOut != nil {
		curves = append(curves, m.HeldOut.scalars(", held out")...)
	}
	for _, rules := range slices.Sorted(maps.Keys(m.Games)) {
		curves = append(curves, m.Games[rules].scalars(", held out, "+rules)...)
	}
	return curves
}

// scalars returns the points of the losses; records is appended to the names of their curves.
func (h Heads) scalars(records string) (curves []tensorboard.Scalar) {
	for _, c := range h.Curves() {
		if c.Metric != nil {
			curves = append(curves, tensorboard.Scalar{Tag: "loss/" + c.Name + records, Value: float32(c.Loss)},
				tensorboard.Scalar{Tag: "accuracy/" + c.Name + records, Value: float32(c.Accuracy)})
		}
	}
	return curves
}

// Curve is a loss with its name; Metric is nil if the run does not train it.
type Curve struct {
	Name string
	*Metric
}

// Curves returns the losses with their names.
func (h Heads) Curves() []Curve {
	return []Curve{{"wdl", h.WDL}, {"policy", h.Policy}, {"gameover", h.GameOver}}
}
