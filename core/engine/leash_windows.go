package engine

import (
	"errors"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// startLeashed starts a child in a job that Windows ends when our handle to it
// is closed, which it does itself however we end. The child runs only once it
// is in the job: an end of ours before that leaves a process that never ran.
// It has no console window, and Ctrl-C in ours is not for it. Release lets go of
// the job, and ends a child that still runs.
func startLeashed(cmd *exec.Cmd) (release func(), err error) {
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	release = func() { windows.CloseHandle(job) }
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true,
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW}
	if err := cmd.Start(); err != nil {
		release()
		return nil, err
	}
	var inJob error
	err = cmd.Process.WithHandle(func(h uintptr) { inJob = windows.AssignProcessToJobObject(job, windows.Handle(h)) })
	if err = errors.Join(err, inJob); err == nil {
		err = resume(uint32(cmd.Process.Pid))
	}
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait() // it was killed
		release()
		return nil, err
	}
	return release, nil
}

// newJob is a job that ends with its last handle, which no child inherits.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

// resume lets the threads of a suspended process run: it has one.
func resume(pid uint32) error {
	all, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(all)
	thread := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(all, &thread); err == nil; err = windows.Thread32Next(all, &thread) {
		if thread.OwnerProcessID != pid {
			continue
		}
		h, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, thread.ThreadID)
		if err != nil {
			return err
		}
		_, err = windows.ResumeThread(h)
		return errors.Join(err, windows.CloseHandle(h))
	}
	return err // there is no thread of it
}
