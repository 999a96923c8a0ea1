//go:build !first

package plot

import (
	"fmt"
	"io"

	"github.com/evald/evald/nn/train"
)

// Training draws a run's losses over its steps, with its accuracies below.
func Training(w io.Writer, title string, metrics []train.Metrics) error {
	if len(metrics) == 0 {
		return fmt.Errorf("plot: the run has no metrics yet")
	}
	x := axis{max: float64(metrics[len(metrics)-1].Step)}
	loss := chart{title: []string{title}, x: x, y: axis{label: "loss, nats"}}
	x.label = "steps"
	accuracy := chart{x: x, y: axis{label: "accuracy, %"}}
	for i, first := range metrics[0].Curves() {
		if first.Metric == nil {
			continue
		}
		losses := curve{name: first.Name, colour: colours[i]}
		accuracies := losses
		for _, m := range metrics {
			if c := m.Curves()[i]; c.Metric != nil {
				losses.points = append(losses.points, exact(float64(m.Step), c.Loss))
				accuracies.points = append(accuracies.points, exact(float64(m.Step), 100*c.Accuracy))
			}
		}
		loss.curves, accuracy.curves = append(loss.curves, losses), append(accuracy.curves, accuracies)
	}
	return draw(w, loss, accuracy)
}
