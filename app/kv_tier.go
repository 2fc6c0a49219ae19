package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"holdfast/core/config"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/storage/segment"
)

// kvTier is the tier of a home with its settings: which are in force, where
// each comes from, and what waits for a restart.
type kvTier struct {
	*tier.Manager
	settings *Settings
	opened   config.KVDisk   // as the process started with
	dir      string          // the store's, open or not
	roots    []string        // every folder this home ever kept a store in
	engines  func() []string // what is in the way of the local engines; nil for none
	changed  chan struct{}   // holds one word that the settings may have changed

	mu    sync.Mutex // serialises follow; guards the rest
	taken tier.Limits
}

// openTier opens the store of the home. In mode off there is none, and nothing
// is read or made.
func openTier(ctx context.Context, p Paths, s *Settings, log *slog.Logger, publish func(string, any)) (*kvTier, error) {
	d := s.Current().KV.Disk
	k := &kvTier{settings: s, opened: d, dir: kvFolder(p, d), taken: limitsOf(d, d.Mode), changed: make(chan struct{}, 1)}
	o := tier.Options{Log: log, Memory: machineMemory(), Limits: k.taken, Configured: k.configured,
		Notify: func(t tier.Transition) { publish("kv.state", t) }}
	if d.Mode != "off" {
		o.Store = func(context.Context) (tier.Segments, tier.Manifests, error) {
			st, err := segment.Open(k.dir, segment.Options{})
			if err != nil {
				return nil, nil, err
			}
			return st, st, nil
		}
	}
	var err error
	if k.roots, err = knownRoots(p, k.dir, d.Mode != "off"); err != nil {
		log.Warn("the folders of earlier caches are not known", "error", err)
	}
	k.Manager, err = tier.Open(ctx, o)
	return k, err
}

func kvFolder(p Paths, d config.KVDisk) string {
	if d.Directory != "" {
		return d.Directory
	}
	return filepath.Join(p.Data, "kv")
}

// limitsOf are the live settings. The mode is the one the process started with:
// a new one waits for a restart, and the budget coupled to it as well.
func limitsOf(d config.KVDisk, mode string) tier.Limits {
	return tier.Limits{Budget: kv.Bytes(d.Budget), Auto: mode == "auto", Reserve: kv.Bytes(d.Reserve),
		MinTokens: d.MinTokens, DailyWrites: kv.Bytes(d.DailyWriteCap)}
}

// knownRoots is the list of folders a store was kept in, the present one added
// where there is one. A folder that was left is never touched, only told of.
func knownRoots(p Paths, dir string, open bool) (roots []string, err error) {
	name := filepath.Join(p.Data, "kv-folders.json")
	data, err := readOptional(name)
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(data, &roots) != nil {
		roots = nil // lost: only older folders are not told of
	}
	if !open || slices.Contains(roots, dir) {
		return roots, nil
	}
	roots = append(roots, dir)
	if data, err = json.Marshal(roots); err != nil {
		return roots, err
	}
	return roots, writeFile(name, append(data, '\n'))
}

// wake has follow called soon. It never waits.
func (k *kvTier) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// follow takes changed limits up. It may wait for spills and fills under way.
func (k *kvTier) follow(ctx context.Context, log *slog.Logger) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := limitsOf(k.settings.Current().KV.Disk, k.opened.Mode)
	if l == k.taken {
		return
	}
	k.taken = l
	if err := k.SetLimits(ctx, l); err != nil {
		log.Warn("the KV tier could not come down to its new limits", "error", err)
	}
}

// configured is what the settings ask for, with the source of each.
func (k *kvTier) configured() kv.StatusConfigured {
	c := k.settings.Current()
	d := c.KV.Disk
	out := kv.StatusConfigured{Mode: d.Mode, Directory: d.Directory, BudgetBytes: kv.Bytes(d.Budget), ReserveBytes: kv.Bytes(d.Reserve),
		Sources: map[string]string{}}
	if out.Directory == "" {
		out.Directory = k.dir
	}
	for _, name := range []string{"mode", "directory", "budget", "reserve"} {
		out.Sources[name] = string(c.Source("kv.disk." + name))
	}
	return out
}

// Status is the tier's, with what waits for a restart and the folders that were
// left behind.
func (k *kvTier) Status() kv.Status {
	s := k.Manager.Status()
	d := k.settings.Current().KV.Disk
	if d.Mode != k.opened.Mode {
		s.Effective.PendingRestart = append(s.Effective.PendingRestart, "kv.disk.mode")
	}
	if d.Directory != k.opened.Directory {
		s.Effective.PendingRestart = append(s.Effective.PendingRestart, "kv.disk.directory")
	}
	for _, dir := range k.roots {
		if _, err := os.Stat(filepath.Join(dir, "root.json")); err == nil && (dir != k.dir || k.opened.Mode == "off") {
			s.Effective.StalePaths = append(s.Effective.StalePaths, dir)
		}
	}
	if k.engines != nil {
		s.Effective.Warnings = append(s.Effective.Warnings, k.engines()...)
	}
	if k.opened.Mode != "off" {
		s.Effective.Warnings = append(s.Effective.Warnings, "the files hold what was said, unencrypted; only their permissions protect them")
	}
	return s
}

// Prune waits for the store to be open, as do Clear and Verify: a command that
// opened it a moment ago must not be told to come back.
func (k *kvTier) Prune(ctx context.Context, r tier.PruneRequest) (tier.Pruned, error) {
	if err := k.await(ctx); err != nil {
		return tier.Pruned{}, err
	}
	return k.Manager.Prune(ctx, r)
}

// Clear is the tier's, once it is open.
func (k *kvTier) Clear(ctx context.Context, model *kv.ModelIdentity, dryRun bool) (tier.Pruned, error) {
	if err := k.await(ctx); err != nil {
		return tier.Pruned{}, err
	}
	return k.Manager.Clear(ctx, model, dryRun)
}

// Verify is the tier's, once it is open.
func (k *kvTier) Verify(ctx context.Context, model *kv.ModelIdentity) (tier.Verification, error) {
	if err := k.await(ctx); err != nil {
		return tier.Verification{}, err
	}
	return k.Manager.Verify(ctx, model)
}

func (k *kvTier) await(ctx context.Context) error {
	select {
	case <-k.Ready():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
