package gpu

import (
	"fmt"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/nn/net"
)

// Variants names all kernels that can evaluate the network on the board and the target, in the order of cuda.Kernels.
func Variants(c net.Config, r game.Rules, on Target) []string {
	var names []string
	for _, p := range plansOf(c, r, on) {
		names = append(names, p.Kernel.Name)
	}
	return names
}

// plansOf is the plans of these kernels.
func plansOf(c net.Config, r game.Rules, on Target) (plans []plan) {
	for _, k := range cuda.Kernels() {
		if p, err := planAmong([]cuda.Kernel{k}, c, r, on); err == nil {
			plans = append(plans, p)
		}
	}
	return plans
}

// planOnly is newPlan with the kernel of that name, or the best if the name is empty. The error names the kernels that can
// be chosen.
func planOnly(kernel string, c net.Config, r game.Rules, on Target) (plan, error) {
	best, err := newPlan(c, r, on)
	if kernel == "" || err != nil {
		return best, err
	}
	for _, p := range plansOf(c, r, on) {
		if p.Kernel.Name == kernel {
			return p, nil
		}
	}
	return plan{}, fmt.Errorf("gpu: kernel %q does not evaluate network %s on board %s on %v: choose one of %s", kernel, c, r, on, strings.Join(Variants(c, r, on), ", "))
}
