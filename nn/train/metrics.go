package train

import (
	"time"

	"github.com/evald/evald/nn/train/tensorboard"
)

// Metrics is a line of a run's metrics: means over the steps since the line before, or since the run went on. Losses
// are in nats; those that the run has not are left out.
type Metrics struct {
	Step      int     `json:"step"` // the last one
	Rate      float64 `json:"lr"`   // of the last step
	Norm      float64 `json:"gradient_norm"`
	Loss      float64 `json:"loss"` // the weighted sum
	WDL       *Metric `json:"wdl,omitempty"`
	Policy    *Metric `json:"policy,omitempty"`
	GameOver  *Metric `json:"gameover,omitempty"`
	PerSecond float64 `json:"positions_per_second"`
}

// Metric is one of the losses.
type Metric struct {
	Loss     float64 `json:"loss"`
	Accuracy float64 `json:"accuracy"` // share of rows where the likeliest class is that of the target
}

// means are the sums of some steps.
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

// metrics is the line of the steps, of which r is the last.
func (m *means) metrics(r Report, batch int) Metrics {
	n := float64(m.steps)
	return Metrics{
		Step: r.Step, Rate: r.Rate, Norm: m.norm / n, Loss: m.loss / n,
		WDL: m.losses.WDL.metric(), Policy: m.losses.Policy.metric(), GameOver: m.losses.GameOver.metric(),
		PerSecond: n * float64(batch) / time.Since(m.since).Seconds(),
	}
}

func (t *Term) metric() *Metric {
	if t == nil {
		return nil
	}
	return &Metric{t.Loss, t.Accuracy()}
}

// scalars are the curves of a line.
func (m Metrics) scalars() []tensorboard.Scalar {
	curves := []tensorboard.Scalar{
		{Tag: "loss/total", Value: float32(m.Loss)},
		{Tag: "run/lr", Value: float32(m.Rate)},
		{Tag: "run/gradient norm", Value: float32(m.Norm)},
		{Tag: "run/positions per second", Value: float32(m.PerSecond)},
	}
	for _, c := range m.Curves() {
		if c.Metric != nil {
			curves = append(curves, tensorboard.Scalar{Tag: "loss/" + c.Name, Value: float32(c.Loss)},
				tensorboard.Scalar{Tag: "accuracy/" + c.Name, Value: float32(c.Accuracy)})
		}
	}
	return curves
}

// Curve is one of the losses with its name; its Metric is nil where the run has it not.
type Curve struct {
	Name string
	*Metric
}

// Curves are the losses of a line.
func (m Metrics) Curves() []Curve {
	return []Curve{{"wdl", m.WDL}, {"policy", m.Policy}, {"gameover", m.GameOver}}
}
