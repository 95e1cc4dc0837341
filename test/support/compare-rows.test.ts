import { describe, expect, it } from 'vitest';
import { compareRows, NO_DIFFERENCES } from './compare-rows.ts';

describe('compareRows', () => {
  const source = [
    { id: '1', v: 'a' },
    { id: '2', v: null },
  ];

  it('finds equal rows equal, whatever their order and whatever metadata the lake adds', () => {
    const lake = [
      { id: '2', v: null, _sluice_lsn: '9' },
      { id: '1', v: 'a', _sluice_lsn: '8' },
    ];
    expect(compareRows(source, lake, ['id'])).toEqual(NO_DIFFERENCES);
  });

  it('tells NULL from the empty text and an absent column from NULL', () => {
    expect(
      compareRows(
        source,
        [
          { id: '1', v: 'a' },
          { id: '2', v: '' },
        ],
        ['id'],
      ).different,
    ).toEqual([{ key: '["2"]', columns: ['v'] }]);
    expect(compareRows(source, [{ id: '1', v: 'a' }, { id: '2' }], ['id']).different).toHaveLength(1);
  });

  it('names missing, extra and doubled keys', () => {
    const lake = [
      { id: '1', v: 'a' },
      { id: '1', v: 'a' },
      { id: '3', v: 'c' },
    ];
    expect(compareRows(source, lake, ['id'])).toEqual({
      missing: ['["2"]'],
      extra: ['["3"]'],
      different: [],
      doubled: ['["1"]'],
    });
  });
});
