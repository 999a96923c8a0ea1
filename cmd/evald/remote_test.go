package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// score and match ask servers for a network as they ask one of this machine, and get the same.
func TestRemote(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("inference s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, _, _ := startServe(t, "--model", "seeded-2x16", "--backend", "cpu", "--tokens", tokens)
	b, _, _ := startServe(t, "--model", "seeded-2x16", "--backend", "cpu", "--tokens", tokens)
	there := "grpc://" + a["grpc"] + "+" + b["grpc"] + "/seeded-2x16"
	t.Setenv(remoteToken, "s3cret")
	if status, _, stderr := evald(t, "", "positions", "-o", dir, "--rules", "7x6x4", "--count", "6", "--kinds", "random"); status != exitOK {
		t.Fatal(stderr)
	}
	score := func(model ...string) string {
		t.Helper()
		status, out, stderr := evald(t, "", append([]string{"score", filepath.Join(dir, "random.txt"), "--visits", "0,20"}, model...)...)
		if status != exitOK {
			t.Fatal(stderr)
		}
		return strings.Join(strings.Fields(strings.ReplaceAll(out, " at "+a["grpc"]+"+"+b["grpc"], "")), " ")
	}
	if here, got := score("--model", "seeded-2x16", "--backend", "cpu"), score("--model", there); here != got {
		t.Errorf("here\n%s\nthere\n%s", here, got)
	}
	status, out, stderr := evald(t, "", "match", "mcts:model="+there+",visits=8", "random", "--games", "4", "--rules", "7x6x4")
	if status != exitOK || !strings.Contains(out, "random") {
		t.Errorf("match: status %d, output %q, errors %q", status, out, stderr)
	}
	t.Setenv(remoteToken, "")
	for want, args := range map[string][]string{
		"must be grpc://HOST:PORT/MODEL":     {"eval", "--model", "grpc://x:1"},
		"do nothing with a model of another": {"eval", "--model", "grpc://x:1/y", "--backend", "cpu"},
		"Unauthenticated":                    {"eval", "--model", "grpc://" + a["grpc"] + "/seeded-2x16"},
		"authentication handshake failed":    {"eval", "--model", "grpcs://" + a["grpc"] + "/seeded-2x16"},
	} {
		if status, out, stderr := evald(t, "445\n", args...); status == exitOK || !strings.Contains(out+stderr, want) {
			t.Errorf("%v: status %d, output %q, errors %q, want %q", args, status, out, stderr, want)
		}
	}
}
