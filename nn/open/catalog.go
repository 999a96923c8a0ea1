package open

import (
	"fmt"
	"strings"

	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
)

// Name says what evaluates positions. Flags, agents, requests, Python and the page read the same names:
//
//	name      = "" | exact | solver | service | heuristic | network
//	exact     = "exact"                                           the networks that ship, and results that a solver proves
//	solver    = "solver"                                          exact scores, in evald serve alone
//	service   = ("grpc://" | "grpcs://") host {"+" host} "/" text  a model of evald serve on other machines
//	heuristic = word {":" key "=" number}                         of package heuristic: bitsquares, bitsquares:power=2:width=6
//	network   = word ["@" version] | path                         a network that ships, or of the user's store, or else a file
//
// "" stands for the networks that ship, each on its boards, and bitsquares on others. Words come
// before files: ./exact is a file. In an agent's text a name is the value of model, as in
// mcts:model=bitsquares:power=2,visits=50, so a path with a comma has no place there.
type Name struct {
	Sort      Sort
	Text      string         // the name, in the form that String returns
	Heuristic heuristic.Name // of SortHeuristic
	Hosts     string         // of SortService, separated by +
	Model     string         // of SortService: the model's name there
	Secure    bool           // of SortService: over TLS
}

// Sort says which of its forms a Name has.
type Sort int

// The sorts of names.
const (
	SortShipped Sort = iota
	SortExact
	SortSolver
	SortService
	SortHeuristic
	SortNetwork
)

// Words that stand for evaluators which are neither networks nor heuristics.
const (
	ExactModel  = "exact"
	SolverModel = "solver"
)

const (
	servicePlain  = "grpc://"
	serviceSecure = "grpcs://"
)

// ParseName parses a name. It does not look whether there is such a network.
func ParseName(text string) (Name, error) {
	switch text {
	case "":
		return Name{}, nil
	case ExactModel:
		return Name{Sort: SortExact, Text: text}, nil
	case SolverModel:
		return Name{Sort: SortSolver, Text: text}, nil
	}
	where, secure := strings.CutPrefix(text, serviceSecure)
	if plain, ok := strings.CutPrefix(text, servicePlain); ok || secure {
		if ok {
			where = plain
		}
		hosts, model, _ := strings.Cut(where, "/")
		if hosts == "" || model == "" {
			return Name{}, fmt.Errorf("model %s: must be grpc://HOST:PORT/MODEL, or grpc://HOST:PORT+HOST:PORT/MODEL for several servers", short.Quote(text))
		}
		return Name{Sort: SortService, Text: text, Hosts: hosts, Model: model, Secure: secure}, nil
	}
	h, ok, err := heuristic.Parse(text)
	if err != nil {
		return Name{}, err
	}
	if ok {
		return Name{Sort: SortHeuristic, Text: h.String(), Heuristic: h}, nil
	}
	return Name{Sort: SortNetwork, Text: text}, nil
}

// String returns the text that ParseName reads.
func (n Name) String() string { return n.Text }

// Label returns what answers report for a model of a service or a heuristic.
func (n Name) Label() string {
	if n.Sort == SortService {
		return short.To(n.Model+" at "+n.Hosts, 200)
	}
	return n.Text
}

// notNetwork returns an error if the name is not one of a network of this machine, for callers that need its file.
func (n Name) notNetwork() error {
	what := map[Sort]string{
		SortExact: "is the networks that ship and a solver", SortSolver: "is no network",
		SortService: "is on another machine", SortHeuristic: "is a heuristic",
	}[n.Sort]
	if what == "" {
		return nil
	}
	return fmt.Errorf("model %s %s, and this needs a network: a name such as %s, or a file, such as ./%[1]s", short.Text(n.Text), what, DefaultModel)
}

// Names returns the names that can be opened without a path: networks that ship, those of the user's store, and heuristics.
func Names() []string {
	names := models.Names()
	if store, err := models.UserStore(); err == nil {
		entries, _ := store.List()
		for _, e := range entries {
			names = append(names, e.Name)
		}
	}
	return append(names, heuristic.Names()...)
}

// Reserved returns the words that networks of the store may not have as names, because they stand for other models or backends.
func Reserved() []string {
	return append(append(Served(), Backends()...), ExactModel, "none")
}

// Served returns the names of the models of evald serve that are not networks.
func Served() []string { return append([]string{"search", SolverModel}, heuristic.Names()...) }

// unknown returns the error for a network that does not exist. It lists what there is.
func unknown(name string) error {
	inStore := ""
	if store, err := models.UserStore(); err == nil && store.Names() != "" {
		inStore = fmt.Sprintf(" nor in %s (%s)", store.Dir(), store.Names())
	}
	return fmt.Errorf("model %s is neither a file nor a shipped model (%s)%s, nor a heuristic (%s), nor %s", short.Quote(name), strings.Join(models.Names(), ", "), inStore, strings.Join(heuristic.Names(), ", "), ExactModel)
}
