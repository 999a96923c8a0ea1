package open

import (
	"encoding/json"
	"fmt"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/short"
)

// searchKey is the metadata key of the constants of searches, as JSON: {"cpuct": 2.1, "fpu": 0.3}.
const searchKey = "evald.search"

// Search returns the constants of searches in the network's file, which evald match --tune writes, or nil if there are none.
func (n Network) Search() (*eval.Search, error) {
	text := n.Metadata()[searchKey]
	if text == "" {
		return nil, nil
	}
	var given struct{ CPUCT, FPU *float64 }
	switch err := json.Unmarshal([]byte(text), &given); {
	case err != nil || given.CPUCT == nil || given.FPU == nil:
		return nil, fmt.Errorf("metadata %s is %s: must be as {\"cpuct\": 1.5, \"fpu\": 0.2}", searchKey, short.Quote(text))
	case !(*given.CPUCT > 0 && *given.CPUCT <= 1000):
		return nil, fmt.Errorf("metadata %s: cpuct is %v, must be above 0, and 1000 at most", searchKey, *given.CPUCT)
	case !(*given.FPU >= -2 && *given.FPU <= 2):
		return nil, fmt.Errorf("metadata %s: fpu is %v, must be -2 to 2", searchKey, *given.FPU)
	}
	return &eval.Search{CPUCT: *given.CPUCT, FPU: *given.FPU}, nil
}

// WithSearch returns the network's file with other constants of searches.
func (n Network) WithSearch(s eval.Search) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return n.With(searchKey, string(text))
}
