#!/bin/sh
# Builds the documents as a site: build.sh DIR. Needs mkdocs. The pages keep their places relative to each other, so that
# their links work here, in a clone, and where the repository is shown.
set -eu
out=$(realpath -m "$1")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/pages"
# Pages, and the files that pages link to.
cp --parents README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE Makefile \
	packaging/monitoring/* packaging/compose/* packaging/kubernetes/* test/clients/examples/tarantool/main.go "$work/pages"
cp -r docs "$work/pages/docs"
# What the tests read behind a language (sh norun, ruby file=work.rb) is nothing that the generator knows.
find "$work/pages" -name '*.md' -exec sed -i 's/^\( *```[a-z]*\) .*/\1/' {} +
cp packaging/site/mkdocs.yml "$work/mkdocs.yml"
mkdocs build --quiet --strict --config-file "$work/mkdocs.yml" --site-dir "$out"
