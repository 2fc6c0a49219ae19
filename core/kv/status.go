package kv

import (
	"time"
)

// Status is the KV tier's status JSON, version 1. Nothing in it holds prompt
// text or token ids.
type Status struct {
	Version        int                  `json:"version"`
	FormatVersion  int                  `json:"format_version"`
	Configured     StatusConfigured     `json:"configured"`
	Effective      StatusEffective      `json:"effective"`
	Usage          StatusUsage          `json:"usage"`
	Activity       StatusActivity       `json:"activity"`
	Reconciliation StatusReconciliation `json:"reconciliation"`
	Inventory      []StatusEntry        `json:"inventory"`
}

// StatusVersion is the version of the status JSON.
const StatusVersion = 1

// StatusConfigured is what was asked for, and by whom: default, file, env, flag.
type StatusConfigured struct {
	Mode         string            `json:"mode"`
	Directory    string            `json:"directory"`
	BudgetBytes  Bytes             `json:"budget_bytes"`
	ReserveBytes Bytes             `json:"reserve_bytes"`
	Sources      map[string]string `json:"sources"`
}

// StatusEffective is what holds now.
type StatusEffective struct {
	State          TierState `json:"state"`
	Reason         string    `json:"reason"`
	PendingRestart []string  `json:"pending_restart"`
	Warnings       []string  `json:"warnings"`
	StalePaths     []string  `json:"stale_paths"`
}

// StatusUsage is the store's room.
type StatusUsage struct {
	BudgetBytes              Bytes `json:"budget_bytes"`
	UsedBytes                Bytes `json:"used_bytes"`
	ReservedInflightBytes    Bytes `json:"reserved_inflight_bytes"`
	FilesystemAvailableBytes Bytes `json:"filesystem_available_bytes"`
	ReserveBytes             Bytes `json:"reserve_bytes"`
	Manifests                int   `json:"manifests"`
	UniqueSegments           int   `json:"unique_segments"`
	QuarantinedObjects       int   `json:"quarantined_objects"`
}

// StatusActivity counts since the store was opened.
type StatusActivity struct {
	Fills                int64                `json:"fills"`
	Hits                 int64                `json:"hits"`
	Misses               map[MissReason]int64 `json:"misses"`
	RestoresOK           int64                `json:"restores_ok"`
	RestoreFailures      int64                `json:"restore_failures"`
	Writes               int64                `json:"writes"`
	Evictions            int64                `json:"evictions"`
	CorruptEntries       int64                `json:"corrupt_entries"`
	BytesRead            Bytes                `json:"bytes_read"`
	BytesWritten         Bytes                `json:"bytes_written"`
	GeometryRejected     int64                `json:"geometry_rejected"`
	Queue                StatusQueue          `json:"queue"`
	SecondsSavedEstimate float64              `json:"seconds_saved_estimate"`
	LastError            string               `json:"last_error"`
}

// StatusQueue is the spill queue.
type StatusQueue struct {
	Items   int   `json:"items"`
	Bytes   Bytes `json:"bytes"`
	Dropped int64 `json:"dropped"`
}

// StatusReconciliation is what opening the store found and did.
type StatusReconciliation struct {
	RemovedTemporaryFiles int   `json:"removed_temporary_files"`
	QuarantinedManifests  int   `json:"quarantined_manifests"`
	RemovedOrphanBytes    Bytes `json:"removed_orphan_bytes"`
	MS                    int64 `json:"ms"`
}

// StatusEntry is one stored conversation point. Entries are listed by model,
// state, then tokens, most first.
type StatusEntry struct {
	ModelIdentity  ModelIdentity `json:"model_identity"`
	StateIdentity  StateID       `json:"state_identity"`
	Tokens         Tokens        `json:"tokens"`
	Bytes          Bytes         `json:"bytes"`
	ExclusiveBytes Bytes         `json:"exclusive_bytes"`
	LastUsed       time.Time     `json:"last_used"`
	Sessions       []string      `json:"sessions"`
}

// TierState is what the tier does at the moment.
type TierState string

// The states.
const (
	StateOff              TierState = "off"
	StateStarting         TierState = "starting"
	StateActive           TierState = "active"
	StateReadOnlyLowSpace TierState = "read_only_low_space"
	StatePruningToBudget  TierState = "pruning_to_budget"
	StateDegraded         TierState = "degraded"
)

// MissReason says why a prompt got nothing from the tier. One lookup has one
// outcome.
type MissReason string

// The reasons.
const (
	MissNeverSeen         MissReason = "never_seen"
	MissEvicted           MissReason = "evicted_recently"
	MissIdentity          MissReason = "identity_mismatch"
	MissBelowMinTokens    MissReason = "below_min_tokens"
	MissNoBoundary        MissReason = "no_boundary"
	MissNotWorthIt        MissReason = "not_worth_it"
	MissResidentIsLonger  MissReason = "resident_is_longer"
	MissLifecycleBusy     MissReason = "lifecycle_busy"
	MissFillInFlight      MissReason = "fill_in_flight"
	MissNoIdleSlot        MissReason = "no_idle_slot"
	MissSlotTaken         MissReason = "slot_taken"
	MissCorrupt           MissReason = "corrupt"
	MissCodec             MissReason = "unsupported_codec"
	MissLayout            MissReason = "unsupported_layout"
	MissImportFailed      MissReason = "import_failed"
	MissStorageError      MissReason = "storage_error"
	MissEngineUnavailable MissReason = "engine_unavailable"
	MissNoWeights         MissReason = "no_weights_digest"
	MissStarting          MissReason = "starting"
	MissTierOff           MissReason = "tier_off"
)

// MissReasons lists every reason, for metrics and tables.
func MissReasons() []MissReason {
	return []MissReason{
		MissNeverSeen, MissEvicted, MissIdentity, MissBelowMinTokens, MissNoBoundary, MissNotWorthIt, MissResidentIsLonger,
		MissLifecycleBusy, MissFillInFlight, MissNoIdleSlot, MissSlotTaken, MissCorrupt, MissCodec, MissLayout,
		MissImportFailed, MissStorageError, MissEngineUnavailable, MissNoWeights, MissStarting, MissTierOff,
	}
}
