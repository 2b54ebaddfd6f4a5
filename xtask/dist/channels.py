"""Writes the files that describe the packages to other channels: a Dockerfile, a Nix flake, a Homebrew formula and the
`server.json` of the MCP registry.

They are made of the manifest, and of the packages that are already in the folder. The formula and `server.json` name
downloads, and are left out while the repository has no address.
"""

import hashlib
import json
import os

SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

# Terminals need a shell and requests need certificates, so the base has both. Programs that outlive their parent become
# children of the first process, which has to be an init.
DOCKERFILE = """\
# Build:  docker build --tag steplatch FOLDER, where FOLDER has this file and {archive}
# Serve:  docker run --init --interactive --rm steplatch
FROM debian:stable-slim
RUN apt-get update \\
 && apt-get install --yes --no-install-recommends ca-certificates \\
 && rm -rf /var/lib/apt/lists/* \\
 && useradd --create-home --shell /bin/bash steplatch
ADD {archive} /opt/
RUN ln -s /opt/{top}/steplatch /usr/local/bin/steplatch
USER steplatch
WORKDIR /home/steplatch
ENTRYPOINT ["steplatch"]
CMD ["mcp"]
"""

FLAKE = """\
{{
  description = {summary};

  outputs = {{ self, nixpkgs }}:
    let
      pkgs = nixpkgs.legacyPackages.x86_64-linux;
    in
    {{
      packages.x86_64-linux.default = pkgs.stdenv.mkDerivation {{
        pname = "steplatch";
        version = "{version}";
        src = {source};
        nativeBuildInputs = [ pkgs.autoPatchelfHook pkgs.installShellFiles ];
        buildInputs = [ pkgs.stdenv.cc.cc.lib ];
        installPhase = ''
          runHook preInstall
          install -D --mode=755 steplatch $out/bin/steplatch
          installManPage man/man1/*
          installShellCompletion --cmd steplatch --bash completions/steplatch.bash \\
            --fish completions/steplatch.fish --zsh completions/_steplatch
          runHook postInstall
        '';
        meta = {{
          description = {summary};
          license = [ {licences} ];
          mainProgram = "steplatch";
          platforms = [ "x86_64-linux" ];
        }};
      }};
    }};
}}
"""

FORMULA = """\
class Steplatch < Formula
  desc {summary}
  homepage "{repository}"
  url "{url}"
  version "{version}"
  sha256 "{digest}"
  license any_of: {licences}

  depends_on arch: :x86_64
  depends_on :linux

  def install
    bin.install "steplatch"
    man1.install Dir["man/man1/*"]
    bash_completion.install "completions/steplatch.bash" => "steplatch"
    zsh_completion.install "completions/_steplatch"
    fish_completion.install "completions/steplatch.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/steplatch --version")
  end
end
"""

# Names of licences in Nixpkgs.
NIX_LICENCES = {"Apache-2.0": "asl20", "MIT": "mit"}


def files(manifest, folder):
    """Returns the files by name, and prints the names of those that need an address that is not known."""
    made = {
        "Dockerfile": DOCKERFILE.format(archive=f"{manifest.archive}.tar.gz", top=manifest.archive),
        "flake.nix": flake(manifest, folder),
    }
    if manifest.repository:
        made["steplatch.rb"] = formula(manifest, folder)
    else:
        print("steplatch.rb is not written: it names a download. Give --repository https://HOST/OWNER/NAME")
    if manifest.server_name:
        made["server.json"] = server(manifest, folder)
    else:
        print("server.json is not written: it names an account of GitHub. Give --repository https://github.com/OWNER/NAME")
    return made


def flake(manifest, folder):
    archive = f"{manifest.archive}.tar.gz"
    source = f"./{archive}"
    if manifest.repository:
        url = download(manifest, archive)
        source = f'pkgs.fetchurl {{ url = "{url}"; sha256 = "{digest(folder, archive)}"; }}'
    licences = " ".join(f"pkgs.lib.licenses.{NIX_LICENCES[licence]}" for licence in manifest.license.split(" OR "))
    return FLAKE.format(
        summary=json.dumps(manifest.summary), version=manifest.version, source=source, licences=licences
    )


def formula(manifest, folder):
    archive = f"{manifest.archive}.tar.gz"
    return FORMULA.format(
        summary=json.dumps(manifest.summary), repository=manifest.repository, url=download(manifest, archive),
        version=manifest.version, digest=digest(folder, archive), licences=json.dumps(manifest.license.split(" OR ")),
    )


def server(manifest, folder):
    """Returns `server.json`, with the packages that a client can install."""
    def package(registry, identifier, **fields):
        return {"registryType": registry, "identifier": identifier} | fields | {"transport": {"type": "stdio"}}
    by_name = {
        "version": manifest.version, "packageArguments": [{"type": "positional", "value": "mcp"}],
    }
    bundle = f"steplatch-{manifest.version}.mcpb"
    packages = [package("npm", "steplatch", **by_name), package("pypi", "steplatch", **by_name)]
    if manifest.is_on_crates_io:
        packages.append(package("cargo", "steplatch", **by_name))
    else:
        print("server.json has no cargo package: Cargo.toml has publish = false")
    # The bundle has its arguments and its version within it.
    packages.append(package("mcpb", download(manifest, bundle), fileSha256=digest(folder, bundle)))
    document = {
        "$schema": SERVER_SCHEMA, "name": manifest.server_name, "title": "Steplatch", "description": manifest.summary,
        "repository": {"url": manifest.repository, "source": "github"}, "version": manifest.version,
        "packages": packages,
    }
    return json.dumps(document, indent=2) + "\n"


def download(manifest, name):
    """Returns the address of a file of the release."""
    return f"{manifest.repository}/releases/download/v{manifest.version}/{name}"


def digest(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
