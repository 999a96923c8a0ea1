package learn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
)

// midway lists the settings of Config that a resumed run may change, by their names in config.json.
// Those with true hold from the first generation on that has not begun, so that a run depends only
// on its configuration and its changes, whenever it was killed. The others hold at once: they do
// not change the numbers of a generation, or differ between machines in any case.
//
// Other settings are fixed. Without the same rules, network, seed or labels it would be another
// run. Accuracies and ratings compare all generations, so these have the same positions, opponents
// and visits.
var midway = map[string]bool{
	"generations": false, "backend": false, "trainer": false,
	"games": true, "selfplay.visits": true, "selfplay.fast_visits": true, "selfplay.full_share": true, "selfplay.selection": true,
	"window": true, "passes": true, "batch": true, "lr": true, "q_share": true,
	"gate_games": true, "opponent_games": true,
}

// Change is a setting that a resumed run has changed. From is the first generation with the new
// value.
type Change struct {
	Setting string          `json:"setting"` // its name in config.json: lr, selfplay.visits
	Was     json.RawMessage `json:"was"`
	Is      json.RawMessage `json:"is"`
	From    int             `json:"from"`
}

// String describes the change for a user.
func (c Change) String() string {
	switch {
	case c.Setting == "generations" && string(c.Was) == fmt.Sprint(NotKept):
		return fmt.Sprintf("generations is %s from now on: an older version began this run and did not keep the number", c.Is)
	case midway[c.Setting]:
		return fmt.Sprintf("from generation %d on, %s is %s instead of %s", c.From, c.Setting, c.Is, c.Was)
	}
	return fmt.Sprintf("%s is %s instead of %s", c.Setting, c.Is, c.Was)
}

// changed is a line of changes.jsonl: what one command has changed.
type changed struct {
	Time    time.Time `json:"time"` // for information only
	Changes []Change  `json:"changes"`
}

const (
	configFile  = "config.json"
	changesFile = "changes.jsonl"
)

// NotKept is the value of Config.Generations in a run of an older version of this program, which
// did not keep the number.
const NotKept = -1

// ReadConfig returns the configuration of the run in a folder, with all changes. begun is false if
// the folder has no run.
func ReadConfig(dir string) (c Config, begun bool, err error) {
	c, _, err = readConfig(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	return c, true, err
}

// readConfig is ReadConfig with the lines of changes.jsonl. If there is no run, the error wraps
// fs.ErrNotExist.
func readConfig(dir string) (c Config, lines []changed, err error) {
	path := filepath.Join(dir, configFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return c, nil, err
	}
	if err := durable.Unmarshal(text, new(Config)); err != nil {
		return c, nil, fmt.Errorf("%s: %w: correct it and leave crc32 out, or name another folder", path, err)
	}
	c.Generations, c.Backend, c.Trainer = NotKept, DefaultBackend, DefaultTrainer // runs of older versions lack these
	if err := durable.DecodeConfig(path, text, &c); err != nil {
		return c, nil, err
	}
	path = filepath.Join(dir, changesFile)
	text, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil, nil
	}
	if err == nil {
		lines, err = durable.Lines[changed](text, 0)
	}
	if err == nil && !bytes.HasSuffix(text, []byte("\n")) { // the file is always written as a whole
		err = fmt.Errorf("line %d: is not complete", len(lines)+1)
	}
	if err != nil {
		return c, nil, fmt.Errorf("%s: %w: correct it and leave crc32 out, or remove that line and give its settings again", path, err)
	}
	for i, line := range lines {
		for _, change := range line.Changes {
			if err := c.apply(change.Setting, change.Is); err != nil {
				return c, nil, fmt.Errorf("%s: line %d: %w: correct it and leave crc32 out", path, i+1, err)
			}
		}
	}
	return c, lines, nil
}

// apply sets a setting that may change, by its name in config.json.
func (c *Config) apply(setting string, value json.RawMessage) error {
	if _, ok := midway[setting]; !ok {
		return fmt.Errorf("setting %q does not change midway", setting)
	}
	text := value
	names := strings.Split(setting, ".")
	for i := len(names) - 1; i >= 0; i-- {
		text = fmt.Appendf(nil, "{%q:%s}", names[i], text)
	}
	if err := json.Unmarshal(text, c); err != nil {
		return fmt.Errorf("setting %s: %w", setting, err)
	}
	return nil
}

// keepConfig writes the configuration of a new run. In a resumed run it adds a line to
// changes.jsonl if settings have changed that may, and returns an error if others differ.
func (r *Run) keepConfig() error {
	was, lines, err := readConfig(r.path())
	if errors.Is(err, fs.ErrNotExist) {
		return durable.KeepConfig(r.path(configFile), r.Config)
	}
	if err != nil {
		return err
	}
	for _, d := range durable.Differences(was, r.Config) {
		next, ok := midway[d.Field]
		if !ok {
			return fmt.Errorf("%s: the run has %s %s, and now it is %s, which cannot change midway: leave it out, or name another folder", configFile, d.Field, d.Was, d.Is)
		}
		change := Change{Setting: d.Field, Was: d.Was, Is: d.Is, From: len(r.generations)}
		for next && r.hasBegun(change.From) {
			change.From++
		}
		r.Changed = append(r.Changed, change)
	}
	if len(r.Changed) > 0 {
		lines = append(lines, changed{time.Now().UTC().Truncate(time.Second), r.Changed})
		if err := r.writeChanges(lines); err != nil {
			return err
		}
	}
	for _, line := range lines {
		r.changes = append(r.changes, line.Changes...)
	}
	return nil
}

func (r *Run) writeChanges(lines []changed) error {
	var text []byte
	for _, line := range lines {
		one, err := durable.Marshal(line)
		if err != nil {
			return err
		}
		text = append(append(text, one...), '\n')
	}
	return durable.WriteFile(r.path(changesFile), text)
}

// hasBegun reports whether games of a generation may have been played.
func (r *Run) hasBegun(generation int) bool {
	return generation < len(r.generations) || exists(r.configOf(generation, 0))
}

// at returns the configuration of a generation: later changes do not hold for it.
func (r *Run) at(generation int) Config {
	c := r.Config
	for setting := range midway {
		var value json.RawMessage
		for _, change := range r.changes {
			switch {
			case change.Setting != setting:
			case change.From <= generation:
				value = change.Is
			case value == nil:
				value = change.Was
			}
		}
		if value != nil {
			_ = c.apply(setting, value) // cannot fail: readConfig has applied it, or keepConfig has made it
		}
	}
	return c
}
