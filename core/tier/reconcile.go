package tier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"holdfast/core/content"
	"holdfast/core/kv"
)

// begin opens the store and takes in what it holds.
func (m *Manager) begin(ctx context.Context, open func(context.Context) (Segments, Manifests, error)) (err error) {
	began := m.now()
	segments, manifests, err := open(ctx)
	if err != nil {
		m.unavailable(err)
		return err
	}
	m.segments, m.manifests = segments, manifests
	fixed, block := segments.PackCost()
	m.cost = kv.PackCost{Fixed: kv.Bytes(fixed), Piece: kv.Bytes(block)}
	if err := m.reconcile(began); err != nil {
		m.segments = nil
		m.unavailable(err)
		return errors.Join(err, manifests.Close())
	}
	err = m.settleBudget(ctx)
	m.publish()
	m.condition(func(c *conditions) { c.phase = kv.StateActive })
	if err != nil {
		m.log.Warn("the KV tier could not come down to its budget", "error", err)
	}
	return nil
}

// unavailable says why there is no store. Inference goes on without.
func (m *Manager) unavailable(err error) {
	reason := ReasonStorageUnavailable
	var coded interface{ Reason() string }
	if errors.As(err, &coded) {
		reason = coded.Reason()
	}
	text := err.Error()
	var advised interface{ Advice() string }
	if errors.As(err, &advised) && advised.Advice() != "" {
		text += " (" + advised.Advice() + ")"
	}
	m.mu.Lock()
	m.activity.LastError = text
	m.mu.Unlock()
	m.condition(func(c *conditions) { c.phase, c.broken = kv.StateActive, reason })
}

// reconcile builds the tables from the manifests there are. One that does not
// read, is of another version, or names a block that is not there goes to
// quarantine; packs that nobody names then go as well. No block is read.
func (m *Manager) reconcile(began time.Time) error {
	note, err := m.readNote()
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.wear, m.serial = note.Wear, note.Serial
	m.rates = note.rates()
	m.mu.Unlock()
	bad := 0
	for _, key := range m.manifests.Manifests() {
		ok, err := m.adopt(kv.ManifestID(key), note)
		if err != nil {
			return err
		}
		if !ok {
			bad++
		}
	}
	freed, err := m.segments.Sweep(m.wanted)
	if err != nil {
		m.log.Warn("the KV tier could not remove all it no longer needs", "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found = kv.StatusReconciliation{RemovedTemporaryFiles: m.manifests.Swept(), QuarantinedManifests: bad,
		RemovedOrphanBytes: kv.Bytes(freed), MS: m.now().Sub(began).Milliseconds()}
	m.activity.CorruptEntries += int64(bad)
	return nil
}

// adopt takes one manifest in, or puts it aside.
func (m *Manager) adopt(id kv.ManifestID, note noted) (ok bool, err error) {
	data, err := m.manifests.Manifest(content.ID(id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("tier: manifest: %w", err)
	}
	man, got, err := kv.DecodeManifest(data)
	if err != nil || got != id || !m.whole(man) {
		if err := m.manifests.QuarantineManifest(content.ID(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("tier: put a damaged manifest aside: %w", err)
		}
		return false, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(id, man, kv.Bytes(len(data)), note.use(id, man))
	return true, nil
}

// whole reports whether every piece of a manifest is stored in its size.
func (m *Manager) whole(man *kv.Manifest) bool {
	for _, p := range man.Pieces() {
		if at, ok := m.where(p.ID); !ok || at.Size != p.Size {
			return false
		}
	}
	return true
}

// minAuto is the smallest budget that is taken without being asked for: under it
// not one state fits.
const minAuto = 1 << 20

// settleBudget works the budget out and comes down to it.
func (m *Manager) settleBudget(ctx context.Context) error {
	free, err := m.segments.Free()
	if err != nil {
		return err
	}
	m.room.set(kv.Bytes(free))
	used := kv.Bytes(m.segments.Used())
	m.mu.Lock()
	m.budget = m.limits.Budget
	if m.limits.Auto {
		if m.budget = kv.AutoBudget(kv.Bytes(free), used, m.limits.Reserve); m.budget < minAuto {
			m.budget = 0
		}
	}
	zero := m.budget == 0
	m.mu.Unlock()
	m.condition(func(c *conditions) { c.zero, c.full = zero, false })
	return m.keepBudget(ctx)
}

// noted is the note: what is worth knowing after a restart and lies in no
// manifest. It is written now and then, so a stop loses at most the uses of the
// last half minute.
type noted struct {
	Serial uint64               `json:"serial"`
	Wear   wear                 `json:"wear"`
	Uses   map[string]notedUse  `json:"uses"`
	Rates  map[string]notedRate `json:"rates"`
}

type notedUse struct {
	Weight float64 `json:"w"`
	At     int64   `json:"at"` // unix ms
	Serial uint64  `json:"n"`
}

type notedRate struct {
	Prefill float64 `json:"prefill"`
	Disk    float64 `json:"disk"`
	Engine  float64 `json:"engine"`
}

// readNote reads the note; one that does not read is as good as none.
func (m *Manager) readNote() (n noted, err error) {
	data, err := m.manifests.Note()
	if err != nil {
		return n, fmt.Errorf("tier: note: %w", err)
	}
	if len(data) > 0 && json.Unmarshal(data, &n) != nil {
		return noted{}, nil
	}
	return n, nil
}

// use is what is known of the uses of a manifest.
func (n noted) use(id kv.ManifestID, man *kv.Manifest) kv.Use {
	u, ok := n.Uses[id.String()]
	if !ok {
		return kv.Use{Weight: 1, At: man.LastUsed, Serial: man.Serial}
	}
	return kv.Use{Weight: u.Weight, At: time.UnixMilli(u.At), Serial: max(u.Serial, man.Serial)}
}

func (n noted) rates() map[kv.StateID]kv.Rates {
	out := map[kv.StateID]kv.Rates{}
	for s, r := range n.Rates {
		if id, err := content.Parse(s); err == nil {
			out[kv.StateID(id)] = kv.Rates{Prefill: r.Prefill, Disk: r.Disk, Engine: r.Engine}
		}
	}
	return out
}

// saveNote writes the note where there is room for it; losing it loses only
// what makes eviction wise. The caller holds the gate.
func (m *Manager) saveNote() error {
	data, err := json.Marshal(m.noted())
	if err != nil {
		return err
	}
	m.admission.Lock()
	defer m.admission.Unlock()
	n := kv.Bytes(len(data))
	room, err := m.measure()
	if err != nil || room.Used+room.Inflight+n > room.Budget || room.Free-n < room.Reserve {
		return err
	}
	free := m.claim(n)
	defer free()
	if err := m.manifests.SetNote(data); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wear.book(n, m.now())
	m.noteDirty = false
	return nil
}

func (m *Manager) noted() noted {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := noted{Serial: m.serial, Wear: m.wear, Uses: map[string]notedUse{}, Rates: map[string]notedRate{}}
	states := map[kv.StateID]bool{}
	for id, e := range m.entries {
		n.Uses[id.String()] = notedUse{e.use.Weight, e.use.At.UnixMilli(), e.use.Serial}
		states[e.state] = true
	}
	for id, r := range m.rates {
		if states[id] {
			n.Rates[content.ID(id).String()] = notedRate{r.Prefill, r.Disk, r.Engine}
		}
	}
	return n
}
