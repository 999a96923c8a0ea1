package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/nn/net"
)

func smallNetwork(t *testing.T) *net.Network {
	t.Helper()
	n, err := net.NewScrambled(net.Config{Blocks: 2, Channels: 16, HeadChannels: 8, Hidden: 16}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The peer computes the same logits, or there would be an error, and every contender has a rate.
func TestPeer(t *testing.T) {
	python := os.Getenv("EVALD_PYTHON")
	if python == "" {
		t.Skip("EVALD_PYTHON names no Python with onnxruntime (see .ci/requirements.txt)")
	}
	figures, err := Network(t.Context(), time.Millisecond, smallNetwork(t), "small", &Peer{Python: python}, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := figures[len(figures)-1]
	if !strings.HasPrefix(last.Name, "network small, onnxruntime 1.") {
		t.Errorf("the last figure is %q, want the peer's", last.Name)
	}
	for _, f := range figures {
		if f.Rate <= 0 || (f.To != "onnxruntime" || f.Ratio <= 0) && f.Name != last.Name {
			t.Errorf("figure %+v: want a rate and its ratio to onnxruntime", f)
		}
	}
}

// A peer that dies, says nonsense or computes something else is an error that says so; nothing is left behind.
func TestPeerFails(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"dies":            {"echo >&2 Traceback; echo >&2 no onnxruntime here; exit 3", "exit status 3: no onnxruntime here (it needs onnxruntime"},
		"nonsense":        {"echo hello; cat", "first answer: invalid character"},
		"other sizes":     {`echo '{"version": "1", "wdl": [1, 2, 3]}'; cat`, "3 values of wdl, want 768"},
		"another network": {`echo '{"version": "1", "wdl": [9' $(yes ', 9' | head -767) ']}'; cat`, "wdl 0 is 9, the reference says "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			fake := filepath.Join(t.TempDir(), "python")
			if err := os.WriteFile(fake, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := Network(t.Context(), time.Millisecond, smallNetwork(t), "small", &Peer{Python: fake}, nil)
			if err == nil || !strings.Contains(err.Error(), "peer onnxruntime: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	if _, err := Network(t.Context(), time.Millisecond, smallNetwork(t), "small", &Peer{Python: "/nowhere/python"}, nil); err == nil || !strings.Contains(err.Error(), "/nowhere/python") {
		t.Errorf("error %v, want one that names the missing Python", err)
	}
}
