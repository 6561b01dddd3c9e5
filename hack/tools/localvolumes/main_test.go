package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func options(node string) controller.ProvisionOptions {
	return controller.ProvisionOptions{
		PVName: "pvc-1", SelectedNodeName: node, StorageClass: &storagev1.StorageClass{},
		PVC: &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	}
}

func TestVolumeIsADirectoryOnTheSelectedNode(t *testing.T) {
	d := directories{root: t.TempDir()}
	pv, _, err := d.Provision(context.Background(), options("node-2"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(pv.Spec.Local.Path)
	if err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("directory: %v, %v", info, err)
	}
	terms := pv.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchExpressions[0].Values[0] != "node-2" {
		t.Errorf("node affinity is %+v", terms)
	}
	if err := d.Delete(context.Background(), pv); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(pv.Spec.Local.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func TestVolumeNeedsASelectedNode(t *testing.T) {
	if _, _, err := (directories{root: t.TempDir()}).Provision(context.Background(), options("")); err == nil {
		t.Error("a volume without a node is made")
	}
}

func TestDeleteStaysInsideTheRoot(t *testing.T) {
	outside := t.TempDir()
	d := directories{root: t.TempDir()}
	for _, path := range []string{outside, d.root, filepath.Join(d.root, "..", filepath.Base(outside))} {
		pv := &v1.PersistentVolume{}
		pv.Spec.Local = &v1.LocalVolumeSource{Path: path}
		var ignored *controller.IgnoredError
		if err := d.Delete(context.Background(), pv); !errors.As(err, &ignored) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is gone", path)
		}
	}
}
